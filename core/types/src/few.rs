//! A list that mostly has one thing, which then takes no memory of its own.

use std::fmt;
use std::ops::Deref;

#[derive(Clone)]
pub enum Few<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> Deref for Few<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Few::One(one) => std::slice::from_ref(one),
            Few::Many(many) => many,
        }
    }
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Few::Many(Vec::new())
    }
}

impl<T> From<Vec<T>> for Few<T> {
    fn from(many: Vec<T>) -> Few<T> {
        Few::Many(many)
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(things: I) -> Few<T> {
        let mut things = things.into_iter();
        match (things.next(), things.next()) {
            (Some(one), None) => Few::One(one),
            (first, second) => Few::Many(first.into_iter().chain(second).chain(things).collect()),
        }
    }
}

impl<'a, T> IntoIterator for &'a Few<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: PartialEq> PartialEq for Few<T> {
    fn eq(&self, other: &Few<T>) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for Few<T> {}

impl<T: fmt::Debug> fmt::Debug for Few<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_there_are_they_are_a_list() {
        for count in 0..4 {
            let few: Few<u32> = (0..count).collect();
            assert!(few.iter().copied().eq(0..count));
            assert_eq!(matches!(few, Few::One(_)), count == 1);
            assert_eq!(few, Few::from((0..count).collect::<Vec<_>>()), "in whichever way it is kept");
        }
    }
}
