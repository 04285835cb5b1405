//! One error type with Paddle's error kinds; `rust/py` maps a kind to the Python exception Paddle raises.

use std::fmt;

/// The kinds of paddle/fluid/platform/error_codes: each becomes one Python exception type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    InvalidArgument,
    NotFound,
    /// A variable that an operator reads holds no value: a NotFound that callers distinguish.
    NoValue,
    OutOfRange,
    AlreadyExists,
    ResourceExhausted,
    PreconditionNotMet,
    /// A NaN or an infinity under FLAGS_check_nan_inf.
    NotFinite,
    PermissionDenied,
    Timeout,
    Unimplemented,
    Unavailable,
    Fatal,
    External,
    /// A Python-level type error (wrong type of an argument).
    Type,
    /// The user interrupted a long call; the pending Python exception is raised instead.
    Interrupted,
}

impl ErrorKind {
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::InvalidArgument => "InvalidArgumentError",
            ErrorKind::NotFound | ErrorKind::NoValue => "NotFoundError",
            ErrorKind::OutOfRange => "OutOfRangeError",
            ErrorKind::AlreadyExists => "AlreadyExistsError",
            ErrorKind::ResourceExhausted => "ResourceExhaustedError",
            ErrorKind::PreconditionNotMet | ErrorKind::NotFinite => "PreconditionNotMetError",
            ErrorKind::PermissionDenied => "PermissionDeniedError",
            ErrorKind::Timeout => "ExecutionTimeoutError",
            ErrorKind::Unimplemented => "UnimplementedError",
            ErrorKind::Unavailable => "UnavailableError",
            ErrorKind::Fatal => "FatalError",
            ErrorKind::External => "ExternalError",
            ErrorKind::Type => "TypeError",
            ErrorKind::Interrupted => "KeyboardInterrupt",
        }
    }
}

/// An error: its kind, the message, and the context (operator, line of the user's script) added on the way up.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    context: Vec<String>,
    /// An opaque payload (the pending Python exception) carried through Rust frames.
    cause: Option<Box<dyn std::any::Any + Send + Sync>>,
}

pub type Result<T> = std::result::Result<T, Error>;

/// Longer messages quote arguments of thousands of elements: their middle is cut.
const MAX_MESSAGE: usize = 2000;

/// The beginning and the end of a text that is longer than `most` bytes.
pub fn shortened(text: String, most: usize) -> String {
    if text.len() <= most {
        return text;
    }
    let boundary = |from: usize| (from..text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
    let (head, tail) = (boundary(most / 4 * 3), boundary(text.len() - most / 4));
    format!("{} [{} bytes left out] {}", &text[..head], tail - head, &text[tail..])
}

impl Error {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        let message = shortened(message.into(), MAX_MESSAGE);
        Error(Box::new(Inner { kind, message, context: Vec::new(), cause: None }))
    }

    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Adds a line of context, innermost first.
    pub fn context(mut self, line: impl Into<String>) -> Error {
        self.0.context.push(line.into());
        self
    }

    pub fn with_cause(mut self, cause: Box<dyn std::any::Any + Send + Sync>) -> Error {
        self.0.cause = Some(cause);
        self
    }

    pub fn take_cause(&mut self) -> Option<Box<dyn std::any::Any + Send + Sync>> {
        self.0.cause.take()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}) {}", self.0.kind.name().trim_end_matches("Error"), self.0.message)?;
        self.0.context.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(e: std::io::Error) -> Error {
        let kind = match e.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            std::io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
            _ => ErrorKind::External,
        };
        Error::new(kind, e.to_string())
    }
}

/// `err!(InvalidArgument, "...", ..)` makes an [`Error`] of that kind.
#[macro_export]
macro_rules! err {
    ($kind:ident, $($fmt:tt)+) => { $crate::base::Error::new($crate::base::ErrorKind::$kind, format!($($fmt)+)) };
}

/// `bail!(InvalidArgument, "...", ..)` returns it.
#[macro_export]
macro_rules! bail {
    ($kind:ident, $($fmt:tt)+) => { return Err($crate::err!($kind, $($fmt)+)) };
}

/// `ensure!(condition, InvalidArgument, "...", ..)` returns it unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($cond:expr, $kind:ident, $($fmt:tt)+) => { if $cond {} else { $crate::bail!($kind, $($fmt)+) } };
}
