//! Attribute values of operators, with the type numbers of framework.proto's AttrType.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum AttrType {
    Int = 0,
    Float = 1,
    String = 2,
    Ints = 3,
    Floats = 4,
    Strings = 5,
    Boolean = 6,
    Booleans = 7,
    Block = 8,
    Long = 9,
    Blocks = 10,
    Longs = 11,
    Float64s = 12,
    // Written by Paddle 2.4 and newer only.
    Var = 13,
    Vars = 14,
    Float64 = 15,
    Scalar = 16,
    Scalars = 17,
    /// An unknown type; the attribute is kept and written back.
    Foreign = -1,
}

impl AttrType {
    /// The name in framework.proto.
    pub fn name(self) -> &'static str {
        match self {
            AttrType::Int => "INT",
            AttrType::Float => "FLOAT",
            AttrType::String => "STRING",
            AttrType::Ints => "INTS",
            AttrType::Floats => "FLOATS",
            AttrType::Strings => "STRINGS",
            AttrType::Boolean => "BOOLEAN",
            AttrType::Booleans => "BOOLEANS",
            AttrType::Block => "BLOCK",
            AttrType::Long => "LONG",
            AttrType::Blocks => "BLOCKS",
            AttrType::Longs => "LONGS",
            AttrType::Float64s => "FLOAT64S",
            AttrType::Var => "VAR",
            AttrType::Vars => "VARS",
            AttrType::Float64 => "FLOAT64",
            AttrType::Scalar => "SCALAR",
            AttrType::Scalars => "SCALARS",
            AttrType::Foreign => "UNKNOWN",
        }
    }
}

/// A number with its type, as Paddle 2.5 and newer write some attributes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    Boolean(bool),
    Long(i64),
    Float64(f64),
    Complex(f64, f64),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Attr {
    Int(i32),
    Float(f32),
    String(String),
    Ints(Vec<i32>),
    Floats(Vec<f32>),
    Strings(Vec<String>),
    Boolean(bool),
    Booleans(Vec<bool>),
    /// Index of a block of the same Program.
    Block(i32),
    Long(i64),
    Blocks(Vec<i32>),
    Longs(Vec<i64>),
    Float64s(Vec<f64>),
    /// A STRING that is not UTF-8 (a serialised message).
    Bytes(Vec<u8>),
    /// The name of a variable that holds the value.
    Var(String),
    Vars(Vec<String>),
    Float64(f64),
    Scalar(Scalar),
    Scalars(Vec<Scalar>),
    /// The whole message of an attribute of an unknown type.
    Foreign(Vec<u8>),
}

impl Attr {
    /// The STRING of these bytes.
    pub fn text(bytes: Vec<u8>) -> Attr {
        String::from_utf8(bytes).map_or_else(|e| Attr::Bytes(e.into_bytes()), Attr::String)
    }

    pub fn kind(&self) -> AttrType {
        match self {
            Attr::Int(_) => AttrType::Int,
            Attr::Float(_) => AttrType::Float,
            Attr::String(_) | Attr::Bytes(_) => AttrType::String,
            Attr::Ints(_) => AttrType::Ints,
            Attr::Floats(_) => AttrType::Floats,
            Attr::Strings(_) => AttrType::Strings,
            Attr::Boolean(_) => AttrType::Boolean,
            Attr::Booleans(_) => AttrType::Booleans,
            Attr::Block(_) => AttrType::Block,
            Attr::Long(_) => AttrType::Long,
            Attr::Blocks(_) => AttrType::Blocks,
            Attr::Longs(_) => AttrType::Longs,
            Attr::Float64s(_) => AttrType::Float64s,
            Attr::Var(_) => AttrType::Var,
            Attr::Vars(_) => AttrType::Vars,
            Attr::Float64(_) => AttrType::Float64,
            Attr::Scalar(_) => AttrType::Scalar,
            Attr::Scalars(_) => AttrType::Scalars,
            Attr::Foreign(_) => AttrType::Foreign,
        }
    }

    /// The value in a type that 2.0.2 has, where Paddle 2.5 and newer wrote a number with its type; otherwise
    /// unchanged.
    pub fn plain(self) -> Attr {
        match self {
            Attr::Float64(v) | Attr::Scalar(Scalar::Float64(v)) => Attr::Float(v as f32),
            Attr::Scalar(Scalar::Boolean(v)) => Attr::Boolean(v),
            Attr::Scalar(Scalar::Long(v)) => i32::try_from(v).map_or(Attr::Long(v), Attr::Int),
            Attr::Scalars(list) => plain_list(list),
            other => other,
        }
    }
}

fn plain_list(list: Vec<Scalar>) -> Attr {
    let longs = list.iter().map(|s| match *s {
        Scalar::Long(v) => Some(v),
        Scalar::Boolean(v) => Some(v.into()),
        _ => None,
    });
    let floats = list.iter().map(|s| match *s {
        Scalar::Float64(v) => Some(v),
        Scalar::Long(v) => Some(v as f64),
        Scalar::Boolean(v) => Some(f64::from(u8::from(v))),
        Scalar::Complex(..) => None,
    });
    if let Some(v) = longs.collect::<Option<Vec<_>>>() {
        Attr::Longs(v)
    } else if let Some(v) = floats.collect::<Option<Vec<_>>>() {
        Attr::Float64s(v)
    } else {
        Attr::Scalars(list)
    }
}

/// One attribute; only the iterators name this type.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    name: String,
    value: Attr,
    /// Unknown fields of the attribute's message.
    extra: Vec<u8>,
}

/// The attributes of an operator, in the order of the file or of their setting. Operators have a few dozen at most, so
/// a scan beats a tree, and the order reproduces files byte by byte.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttrMap {
    live: Vec<Entry>,
    /// Attributes whose name comes again later in the file (Paddle 2.6 writes such), with their positions. They have
    /// no effect and are dropped with the first change.
    shadowed: Vec<(usize, Entry)>,
}

impl AttrMap {
    pub fn new() -> AttrMap {
        AttrMap::default()
    }

    pub fn len(&self) -> usize {
        self.live.len()
    }

    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    pub fn get(&self, name: &str) -> Option<&Attr> {
        self.live.iter().find(|e| e.name == name).map(|e| &e.value)
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut Attr> {
        self.shadowed.clear();
        self.live.iter_mut().find(|e| e.name == name).map(|e| &mut e.value)
    }

    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Sets a value and returns the one it replaces, whose place it takes.
    pub fn insert(&mut self, name: impl Into<String> + AsRef<str>, value: Attr) -> Option<Attr> {
        self.shadowed.clear();
        match self.live.iter_mut().find(|e| e.name == name.as_ref()) {
            Some(e) => {
                e.extra.clear();
                Some(std::mem::replace(&mut e.value, value))
            }
            None => {
                self.live.push(Entry { name: name.into(), value, extra: Vec::new() });
                None
            }
        }
    }

    pub fn remove(&mut self, name: &str) -> Option<Attr> {
        self.shadowed.clear();
        let at = self.live.iter().position(|e| e.name == name)?;
        Some(self.live.remove(at).value)
    }

    pub fn clear(&mut self) {
        *self = AttrMap::new();
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&String, &Attr)> + Clone {
        self.live.iter().map(|e| (&e.name, &e.value))
    }

    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = (&String, &mut Attr)> {
        self.shadowed.clear();
        self.live.iter_mut().map(|e| (&e.name, &mut e.value))
    }

    pub fn keys(&self) -> impl ExactSizeIterator<Item = &String> + Clone {
        self.live.iter().map(|e| &e.name)
    }

    pub fn values(&self) -> impl ExactSizeIterator<Item = &Attr> + Clone {
        self.live.iter().map(|e| &e.value)
    }

    /// The attributes of a file: names, values, unknown bytes.
    pub(crate) fn from_file(all: Vec<(String, Attr, Vec<u8>)>) -> AttrMap {
        let last: std::collections::HashMap<String, usize> =
            all.iter().enumerate().map(|(at, (name, ..))| (name.clone(), at)).collect();
        let mut map = AttrMap::new();
        for (at, (name, value, extra)) in all.into_iter().enumerate() {
            let again = last[&name] != at;
            let entry = Entry { name, value, extra };
            match again {
                true => map.shadowed.push((at, entry)),
                false => map.live.push(entry),
            }
        }
        map
    }

    /// The attributes as they go into a file.
    pub(crate) fn to_file(&self) -> impl Iterator<Item = (&str, &Attr, &[u8])> {
        let (mut live, mut shadowed, mut at) = (self.live.iter(), self.shadowed.iter().peekable(), 0);
        std::iter::from_fn(move || {
            let entry = match shadowed.next_if(|(place, _)| *place == at) {
                Some((_, entry)) => entry,
                None => live.next()?,
            };
            at += 1;
            Some((entry.name.as_str(), &entry.value, entry.extra.as_slice()))
        })
    }
}

impl Extend<(String, Attr)> for AttrMap {
    fn extend<I: IntoIterator<Item = (String, Attr)>>(&mut self, items: I) {
        for (name, value) in items {
            self.insert(name, value);
        }
    }
}

impl FromIterator<(String, Attr)> for AttrMap {
    fn from_iter<I: IntoIterator<Item = (String, Attr)>>(items: I) -> AttrMap {
        let mut map = AttrMap::new();
        map.extend(items);
        map
    }
}

impl IntoIterator for AttrMap {
    type Item = (String, Attr);
    type IntoIter = std::iter::Map<std::vec::IntoIter<Entry>, fn(Entry) -> (String, Attr)>;

    fn into_iter(self) -> Self::IntoIter {
        self.live.into_iter().map(|e| (e.name, e.value))
    }
}

impl<'a> IntoIterator for &'a AttrMap {
    type Item = (&'a String, &'a Attr);
    type IntoIter = std::iter::Map<std::slice::Iter<'a, Entry>, fn(&'a Entry) -> (&'a String, &'a Attr)>;

    fn into_iter(self) -> Self::IntoIter {
        self.live.iter().map(|e| (&e.name, &e.value))
    }
}
