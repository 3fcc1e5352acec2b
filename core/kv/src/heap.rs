//! Where the bytes of records are: one after another in pages, the longest in memory of their own.
//!
//! ```text
//! page   record  record  free  record  free  ...  record │ not used yet
//! ```
//!
//! A record that is gone leaves free units behind, and so does one that became shorter; it may become as long again.
//! Only the last page that was begun takes new records. A page with nothing but free units is given back at once; the
//! others are emptied by the table when too much is free (`Heap::wasteful`), since moving a record changes its handle.
//!
//! Not here: keys, order, when a page is emptied (`table.rs`), what the bytes of a record mean (`record.rs`).

use crate::index::Handle;
use crate::record::{self, FREE, Record, Stamp, key_of, length_of, stamp_of};
use atoll_types::Offset;

/// Records begin at multiples of this.
const UNIT: usize = 4;
const PAGE_UNITS: usize = 8192;
const PAGE: usize = PAGE_UNITS * UNIT;
/// A longer record has memory of its own: few would fit a page, and the rest of it would be lost.
const PAGED_MOST: usize = PAGE / 8;
/// What a page that is begun has room for at first. It doubles: most buckets have few keys.
const PAGE_FIRST: usize = 256;
/// In a handle: this one has memory of its own.
const ALONE: Handle = 1 << 31;
const PAGES_MOST: usize = ALONE as usize / PAGE_UNITS;
/// One in so many units may be free.
const FREE_SHARE: usize = 4;
/// What an allocator adds, about.
const ALLOCATED: usize = 8;
/// What a processor brings from memory at a time, and how much of that of a record: most have no more.
const CACHE_LINE: usize = 64;
const FORESEEN: usize = 3;

/// Has the cache line of this byte brought from memory, and does not wait for it.
#[inline]
fn bring(byte: &u8) {
    #[cfg(target_arch = "x86_64")]
    safe_arch::prefetch_t0(byte);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = byte;
}

#[derive(Clone, Debug, Default)]
struct Page {
    bytes: Vec<u8>,
    /// In bytes, as everything here but handles and heads.
    free: usize,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Heap {
    pages: Vec<Page>,
    /// Places in `pages` that have no page.
    spare: Vec<u32>,
    /// The page that takes new records.
    filling: usize,
    alone: Vec<Box<[u8]>>,
    /// Places in `alone` that have nothing.
    alone_spare: Vec<Handle>,
    alone_bytes: usize,
    /// Of all pages: bytes in use, and those of them that are free.
    paged: usize,
    free: usize,
}

fn round_up(length: usize) -> usize {
    length.next_multiple_of(UNIT)
}

fn place(handle: Handle) -> (usize, usize) {
    (handle as usize / PAGE_UNITS, handle as usize % PAGE_UNITS * UNIT)
}

fn put_free(bytes: &mut [u8]) {
    let units = (bytes.len() / UNIT) as u32;
    if let Some(head) = bytes.first_chunk_mut() {
        *head = (units | FREE).to_le_bytes();
    }
}

/// How many bytes from here on are free.
fn free_at(bytes: &[u8]) -> usize {
    let head = bytes.first_chunk().map_or(0, |head| u32::from_le_bytes(*head));
    if head & FREE == 0 { 0 } else { (head & !FREE) as usize * UNIT }
}

impl Heap {
    /// Bytes that begin with those of the record.
    fn bytes_of(&self, handle: Handle) -> &[u8] {
        if handle & ALONE != 0 {
            return &self.alone[(handle & !ALONE) as usize];
        }
        let (page, begin) = place(handle);
        &self.pages[page].bytes[begin..]
    }

    /// Somebody will look at this record soon: has its beginning brought from memory.
    pub(crate) fn foresee(&self, handle: Handle) {
        let bytes = self.bytes_of(handle);
        bytes.iter().step_by(CACHE_LINE).take(FORESEEN).for_each(bring);
    }

    pub(crate) fn record(&self, handle: Handle) -> Record<'_> {
        Record::read(self.bytes_of(handle))
    }

    pub(crate) fn stamp(&self, handle: Handle) -> Stamp {
        stamp_of(self.bytes_of(handle))
    }

    pub(crate) fn key(&self, handle: Handle) -> &[u8] {
        key_of(self.bytes_of(handle))
    }

    /// Takes in a record, with so many bytes after it that it may grow into.
    pub(crate) fn add(&mut self, record: Record<'_>, slack: usize) -> Handle {
        let length = round_up(record.length());
        let room = length + round_up(slack);
        if room > PAGED_MOST || !self.make_room(room) {
            let mut bytes = vec![0; record.length()].into_boxed_slice();
            record.write(&mut bytes);
            return self.add_alone(bytes);
        }
        let page = &mut self.pages[self.filling];
        let begin = page.bytes.len();
        page.bytes.resize(begin + room, 0);
        record.write(&mut page.bytes[begin..]);
        put_free(&mut page.bytes[begin + length..]);
        page.free += room - length;
        self.free += room - length;
        self.paged += room;
        (self.filling * PAGE_UNITS + begin / UNIT) as Handle
    }

    fn add_alone(&mut self, bytes: Box<[u8]>) -> Handle {
        self.alone_bytes += bytes.len();
        if let Some(handle) = self.alone_spare.pop() {
            self.alone[handle as usize] = bytes;
            return handle | ALONE;
        }
        self.alone.push(bytes);
        (self.alone.len() - 1) as Handle | ALONE
    }

    /// Sees to it that the page being filled takes so many bytes. False where no page can be begun any more.
    fn make_room(&mut self, room: usize) -> bool {
        if self.pages.get(self.filling).is_none_or(|page| page.bytes.len() + room > PAGE) {
            match self.spare.pop() {
                Some(spare) => self.filling = spare as usize,
                None if self.pages.len() == PAGES_MOST => return false,
                None => {
                    self.pages.push(Page::default());
                    self.filling = self.pages.len() - 1;
                }
            }
        }
        let bytes = &mut self.pages[self.filling].bytes;
        let needed = bytes.len() + room;
        if needed > bytes.capacity() {
            let wanted = (bytes.capacity() * 2).max(needed).clamp(PAGE_FIRST, PAGE);
            bytes.reserve_exact(wanted - bytes.len());
        }
        true
    }

    /// Puts another value where this record is, if that is a matter of a few bytes. Gives the stamps before and after.
    pub(crate) fn write_over(
        &mut self,
        handle: Handle,
        key: usize,
        version: Offset,
        value: &[u8],
    ) -> Option<(Stamp, Stamp)> {
        if handle & ALONE != 0 {
            return None;
        }
        let (page, begin) = place(handle);
        record::write_over(&mut self.pages[page].bytes[begin..], key, version, value)
    }

    /// Puts another record of its key where this one is. False, and nothing done, where it does not fit.
    pub(crate) fn overwrite(&mut self, handle: Handle, record: Record<'_>) -> bool {
        let length = record.length();
        if handle & ALONE != 0 {
            let bytes = &mut self.alone[(handle & !ALONE) as usize];
            let fits = bytes.len() == length;
            if fits {
                record.write(bytes);
            }
            return fits;
        }
        let (page, begin) = place(handle);
        let page = &mut self.pages[page];
        let held = round_up(length_of(&page.bytes[begin..]));
        let length = round_up(length);
        if held == length {
            record.write(&mut page.bytes[begin..]);
            return true;
        }
        let behind = page.bytes.get(begin + held..).map_or(0, free_at);
        if length > held + behind {
            return false;
        }
        record.write(&mut page.bytes[begin..]);
        put_free(&mut page.bytes[begin + length..begin + held + behind]);
        page.free = page.free + held - length;
        self.free = self.free + held - length;
        true
    }

    pub(crate) fn remove(&mut self, handle: Handle) {
        if handle & ALONE != 0 {
            let gone = std::mem::take(&mut self.alone[(handle & !ALONE) as usize]);
            self.alone_bytes -= gone.len();
            self.alone_spare.push(handle & !ALONE);
            return;
        }
        let (number, begin) = place(handle);
        let page = &mut self.pages[number];
        let length = round_up(length_of(&page.bytes[begin..]));
        let behind = page.bytes.get(begin + length..).map_or(0, free_at);
        put_free(&mut page.bytes[begin..begin + length + behind]);
        page.free += length;
        self.free += length;
        if page.free == page.bytes.len() {
            self.drop_page(number);
        }
    }

    fn drop_page(&mut self, number: usize) {
        let page = std::mem::take(&mut self.pages[number]);
        self.paged -= page.bytes.len();
        self.free -= page.free;
        if number != self.filling {
            self.spare.push(number as u32);
        }
    }

    /// Is too much free?
    pub(crate) fn is_wasteful(&self) -> bool {
        self.free >= PAGE && self.free > self.paged / FREE_SHARE
    }

    /// The page to be emptied next, where too much is free: the one that has most free.
    pub(crate) fn wasteful(&self) -> Option<usize> {
        if !self.is_wasteful() {
            return None;
        }
        let numbers = (0..self.pages.len()).filter(|&number| number != self.filling);
        numbers.max_by_key(|&number| self.pages[number].free).filter(|&number| self.pages[number].free > 0)
    }

    /// The records of a page.
    pub(crate) fn handles(&self, page: usize) -> Vec<Handle> {
        let mut handles = Vec::new();
        let mut begin = 0;
        while let Some(rest) = self.pages[page].bytes.get(begin..).filter(|rest| !rest.is_empty()) {
            match free_at(rest) {
                0 => {
                    handles.push((page * PAGE_UNITS + begin / UNIT) as Handle);
                    begin += round_up(length_of(rest));
                }
                free => begin += free,
            }
        }
        handles
    }

    /// Copies a record of a page that is being emptied. What was its handle is to be removed.
    pub(crate) fn copy(&mut self, handle: Handle) -> Handle {
        let (number, begin) = place(handle);
        let exact = length_of(&self.pages[number].bytes[begin..]);
        let length = round_up(exact);
        if !self.make_room(length) {
            return self.add_alone(self.pages[number].bytes[begin..begin + exact].into());
        }
        let mut page = std::mem::take(&mut self.pages[self.filling]);
        let end = page.bytes.len();
        page.bytes.extend_from_slice(&self.pages[number].bytes[begin..begin + length]);
        self.pages[self.filling] = page;
        self.paged += length;
        (self.filling * PAGE_UNITS + end / UNIT) as Handle
    }

    /// About what it takes up in memory.
    pub(crate) fn bytes(&self) -> usize {
        let lists = self.pages.capacity() * size_of::<Page>()
            + self.alone.capacity() * (size_of::<Box<[u8]>>() + ALLOCATED)
            + (self.spare.capacity() + self.alone_spare.capacity()) * size_of::<u32>();
        let unused = self.pages.get(self.filling).map_or(0, |page| page.bytes.capacity() - page.bytes.len());
        lists + self.paged + unused + self.alone_bytes
    }
}

#[cfg(test)]
impl Heap {
    /// Asserts that these are the records, and that what is counted is what is there.
    pub(crate) fn check(&self, handles: impl Iterator<Item = Handle>) {
        let expected: std::collections::BTreeSet<Handle> = handles.collect();
        let (mut found, mut free, mut paged) = (std::collections::BTreeSet::new(), 0, 0);
        for (number, page) in self.pages.iter().enumerate() {
            let handles = self.handles(number);
            let held: usize = handles.iter().map(|&handle| round_up(length_of(self.bytes_of(handle)))).sum();
            assert_eq!(page.bytes.len(), held + page.free, "a page is its records and what is free");
            assert!(page.bytes.capacity() <= PAGE);
            (free, paged) = (free + page.free, paged + page.bytes.len());
            found.extend(handles);
        }
        let alone = (0..self.alone.len()).filter(|&number| !self.alone[number].is_empty());
        found.extend(alone.map(|number| number as Handle | ALONE));
        assert_eq!(found, expected);
        assert_eq!((self.free, self.paged), (free, paged));
        assert_eq!(self.alone_bytes, self.alone.iter().map(|bytes| bytes.len()).sum::<usize>());
    }
}
