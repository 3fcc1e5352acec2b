#!/usr/bin/env python3
"""Durable writes of a cluster of three processes, against what the disk itself does, in one run.

    cargo build --release && python3 bench/durable.py [--dir DIR] [--seconds 5]

The disk is measured by itself first: a small write and an fdatasync into a file that was written before, one after
another; and the same with as much as fits one group (64 KiB). All three nodes keep their data on that one disk, so one
replicated write costs three syncs of it. Ratios say more than figures on a machine that does something else as well.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def percentile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * part))]


def measure_disk(directory, size, seconds=2.0):
    """Microseconds of each write of `size` bytes with its fdatasync, into a file that has its length already."""
    path = os.path.join(directory, "probe")
    length = 16 << 20
    with open(path, "wb") as file:
        file.write(b"\0" * length)
        os.fsync(file.fileno())
    handle = os.open(path, os.O_WRONLY)
    data, took, at = b"\1" * size, [], 0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        begun = time.perf_counter()
        os.pwrite(handle, data, at)
        os.fdatasync(handle)
        took.append((time.perf_counter() - begun) * 1e6)
        at = (at + size) % (length - size)
    os.close(handle)
    os.remove(path)
    return took


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def start(binary, directory, durable):
    ports = free_ports(9)
    join = ",".join(f"127.0.0.1:{ports[node * 3]}" for node in range(3))
    nodes = []
    for node in range(3):
        peer, http, resp = ports[node * 3 : node * 3 + 3]
        command = [binary, "serve", "--name", f"n{node + 1}", "--bootstrap", "n1,n2,n3", "--join", join]
        command += ["--peer", f"127.0.0.1:{peer}", "--http", f"127.0.0.1:{http}", "--resp", f"127.0.0.1:{resp}"]
        if durable:
            command += ["--data-dir", os.path.join(directory, f"n{node + 1}")]
        nodes.append(subprocess.Popen(command, env={**os.environ, "ATOLL_LOG": "error"}, stderr=subprocess.DEVNULL))
    url = f"http://127.0.0.1:{ports[1]}"
    for _ in range(300):
        try:
            with urllib.request.urlopen(f"{url}/v1/cluster", timeout=1) as reply:
                if json.load(reply)["healthy"]:
                    return nodes, url
        except OSError:
            pass
        time.sleep(0.1)
    sys.exit("the cluster does not come up")


def stop(nodes):
    for node in nodes:
        node.kill()
    for node in nodes:
        node.wait()


def load(binary, url, connections, seconds):
    command = [binary, "bench", "--server", url, "--connections", str(connections), "--seconds", str(seconds), "--json"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().splitlines()
    return json.loads(out[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(ROOT, "target/release/atoll"))
    parser.add_argument("--dir", help="a directory on the disk to be measured; a temporary one, if not said")
    parser.add_argument("--seconds", type=int, default=5)
    arguments = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="atoll-bench-", dir=arguments.dir)
    try:
        small, group = measure_disk(directory, 512), measure_disk(directory, 64 << 10)
        alone = 1e6 / (sum(small) / len(small))
        print("the disk by itself")
        for name, took in [("512 bytes and fdatasync", small), ("64 KiB and fdatasync", group)]:
            rate = 1e6 / (sum(took) / len(took))
            p50, p99 = percentile(took, 0.5), percentile(took, 0.99)
            print(f"  {name:24} {rate:9,.0f} a second   p50 {p50:7,.0f} us   p99 {p99:7,.0f} us")
        base = percentile(small, 0.5)
        for durable in (True, False):
            print("three nodes, " + ("on that disk" if durable else "in memory"))
            nodes, url = start(arguments.binary, directory, durable)
            try:
                for connections in (1, 64, 256):
                    found = load(arguments.binary, url, connections, arguments.seconds)
                    rate, p50, p99 = found["per_second"], found["us"]["p50"], found["us"]["p99"]
                    line = f"  {connections:3} connections {rate:9,.0f} writes a second"
                    line += f"   p50 {p50:7,} us   p99 {p99:7,} us"
                    if durable:
                        line += f"   = {rate / alone:5.2f} x the syncs of the disk, {p50 / base:5.1f} x the time of one"
                    print(line)
            finally:
                stop(nodes)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
