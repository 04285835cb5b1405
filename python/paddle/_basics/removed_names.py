"""The table of names that newer releases have removed, and that the modules of a script get back.

A heading is a module and the release that removed its names; a row is a name and its replacement, ``module:name`` (or
``module`` alone for a module). Only names that the installed release lacks are restored, except those of `CHANGED`:
functions that still exist but refuse what scripts call them with.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any, NamedTuple

__all__ = ["CHANGED", "MODULES", "Restored", "by_module", "modules"]

_REMOVED = """
numpy, removed in numpy 1.24
  bool        builtins:bool
  int         builtins:int
  float       builtins:float
  complex     builtins:complex
  object      builtins:object
  str         builtins:str
  long        builtins:int
  unicode     builtins:str
numpy, removed in numpy 2
  Inf         math:inf
  Infinity    math:inf
  infty       math:inf
  PINF        math:inf
  NINF        paddle.legacy.numpy_names:NINF
  NaN         math:nan
  NAN         math:nan
  PZERO       paddle.legacy.numpy_names:PZERO
  NZERO       paddle.legacy.numpy_names:NZERO
  bool8       numpy:bool_
  float_      numpy:float64
  complex_    numpy:complex128
  cfloat      numpy:complex128
  singlecomplex  numpy:complex64
  longfloat   numpy:longdouble
  longcomplex numpy:clongdouble
  clongfloat  numpy:clongdouble
  int0        numpy:intp
  uint0       numpy:uintp
  object0     numpy:object_
  str0        numpy:str_
  bytes0      numpy:bytes_
  void0       numpy:void
  string_     numpy:bytes_
  unicode_    numpy:str_
  alltrue     numpy:all
  sometrue    numpy:any
  product     numpy:prod
  cumproduct  numpy:cumprod
  round_      numpy:round
  row_stack   numpy:vstack
  trapz       numpy:trapezoid
  in1d        numpy:isin
  asfarray    paddle.legacy.numpy_names:asfarray
  asscalar    paddle.legacy.numpy_names:asscalar
  rank        numpy:ndim
  msort       paddle.legacy.numpy_names:msort
  mat         numpy:asmatrix
  issubclass_ builtins:issubclass
  issctype    paddle.legacy.numpy_names:issctype
  obj2sctype  paddle.legacy.numpy_names:obj2sctype
  find_common_type  paddle.legacy.numpy_names:find_common_type
  cast        paddle.legacy.numpy_names:cast
  sctypes     paddle.legacy.numpy_names:sctypes
  ComplexWarning  numpy.exceptions:ComplexWarning
  VisibleDeprecationWarning  numpy.exceptions:VisibleDeprecationWarning
  AxisError   numpy.exceptions:AxisError
  RankWarning numpy.exceptions:RankWarning
  TooHardError  numpy.exceptions:TooHardError
  safe_eval   ast:literal_eval
  core        numpy._core
numpy.random, removed in numpy 2
  random_integers  paddle.legacy.numpy_names:random_integers
collections, removed in Python 3.10
  Awaitable AsyncIterable AsyncIterator ByteString Callable Collection Container Coroutine Generator Hashable
  ItemsView Iterable Iterator KeysView Mapping MappingView MutableMapping MutableSequence MutableSet Reversible
  Sequence Set Sized ValuesView  collections.abc:*
time, removed in Python 3.8
  clock       time:process_time
fractions, removed in Python 3.9
  gcd         math:gcd
inspect, removed in Python 3.11
  getargspec  paddle.legacy.python_names:getargspec
  formatargspec  paddle.legacy.python_names:formatargspec
base64, removed in Python 3.9
  encodestring  base64:encodebytes
  decodestring  base64:decodebytes
asyncio, removed in Python 3.11
  coroutine   types:coroutine
sys, removed in Python 3
  maxint      sys:maxsize
  setdefaultencoding  paddle.legacy.python_names:setdefaultencoding
  exc_clear   paddle.legacy.python_names:exc_clear
itertools, removed in Python 3
  izip        builtins:zip
  imap        builtins:map
  ifilter     builtins:filter
  izip_longest  itertools:zip_longest
  ifilterfalse  itertools:filterfalse
string, removed in Python 3
  letters     string:ascii_letters
  lowercase   string:ascii_lowercase
  uppercase   string:ascii_uppercase
  maketrans   paddle.legacy.python_names:maketrans
  join        paddle.legacy.python_names:join
  atoi        builtins:int
  atof        builtins:float
os, removed in Python 3
  getcwdu     os:getcwd
  errno       errno
types, removed in Python 3
  StringType  builtins:str
  UnicodeType builtins:str
  IntType     builtins:int
  LongType    builtins:int
  FloatType   builtins:float
  ListType    builtins:list
  TupleType   builtins:tuple
  DictType    builtins:dict
  BooleanType builtins:bool
  ClassType   builtins:type
urllib, removed in Python 3
  urlopen     urllib.request:urlopen
  urlretrieve urllib.request:urlretrieve
  urlencode   urllib.parse:urlencode
  quote       urllib.parse:quote
  unquote     urllib.parse:unquote
PIL.Image, removed in Pillow 10
  ANTIALIAS   PIL.Image:LANCZOS
  LINEAR      PIL.Image:BILINEAR
  CUBIC       PIL.Image:BICUBIC
builtins, removed in Python 3
  xrange      builtins:range
  unicode     builtins:str
  basestring  builtins:str
  long        builtins:int
  unichr      builtins:chr
  raw_input   builtins:input
  reduce      functools:reduce
  reload      importlib:reload
  intern      sys:intern
  cmp         paddle.legacy.python_names:cmp
  file        paddle.legacy.files:open
  execfile    paddle.legacy.python_names:execfile
"""

_CHANGED = """
numpy, refused since numpy 1.24
  array       paddle.legacy.numpy_names:array
  asarray     paddle.legacy.numpy_names:asarray
numpy, refused since numpy 1.16.3
  load        paddle.legacy.numpy_names:load
numpy, refused since numpy 2.3
  fromstring  paddle.legacy.numpy_names:fromstring
yaml, refused since PyYAML 6
  load        paddle.legacy.yaml_names:load
  load_all    paddle.legacy.yaml_names:load_all
pickle, refused since Python 3
  load        paddle.legacy.files:load_pickle
  loads       paddle.legacy.files:loads_pickle
  dump        paddle.legacy.files:dump_pickle
csv, refused since Python 3
  reader      paddle.legacy.files:csv_reader
  DictReader  paddle.legacy.files:csv_dict_reader
random, refused since Python 3.11
  shuffle     paddle.legacy.python_names:shuffle
  sample      paddle.legacy.python_names:sample
PIL.ImageDraw, refused since Pillow 10
  Draw        paddle.legacy.pillow_names:draw
PIL.ImageFont, refused since Pillow 10
  truetype    paddle.legacy.pillow_names:truetype
  load_default  paddle.legacy.pillow_names:load_default
io, refused since Python 3.11
  open        paddle.legacy.files:open
codecs, refused since Python 3.11
  open        paddle.legacy.files:codecs_open
builtins, refused since Python 3
  open        paddle.legacy.files:open
"""

#: modules that Python 3, or a release of it, has no longer (or that are an optional package), and their replacements
MODULES = {
    "cPickle": "pickle",
    "Queue": "queue",
    "ConfigParser": "configparser",
    "StringIO": "io",
    "cStringIO": "io",
    "__builtin__": "builtins",
    "copy_reg": "copyreg",
    "urllib2": "urllib.request",
    "urlparse": "urllib.parse",
    "HTMLParser": "html.parser",
    "SocketServer": "socketserver",
    "BaseHTTPServer": "http.server",
    "SimpleHTTPServer": "http.server",
    "httplib": "http.client",
    "cookielib": "http.cookiejar",
    "commands": "subprocess",
    "thread": "_thread",
    "dummy_thread": "_thread",
    "imp": "paddle.legacy.imp_module",
    "six": "paddle.legacy.six_module",
    "six.moves": "paddle.legacy.six_module",
    "distutils": "setuptools._distutils",
}


class Restored(NamedTuple):
    """One row.

    Attributes:
        module, name: what the script asks for.
        source: "module:name" of the replacement, or a module.
        since: which release removed or changed it.
        changed: True if the name exists, and refuses old calls.
    """

    module: str
    name: str
    source: str
    since: str
    changed: bool

    def value(self) -> Any:
        """The replacement."""
        module, _, name = self.source.partition(":")
        found = importlib.import_module(module)
        return getattr(found, name) if name else found


def _rows(text: str, changed: bool) -> list[Restored]:
    found = []
    module = since = ""
    names: list[str] = []
    for line in text.strip().split("\n"):
        if not line.startswith(" "):
            module, _, since = line.partition(", ")
            continue
        words = line.split()
        source = words[-1] if ":" in words[-1] or len(words) == 2 and not names else ""
        names += words[:-1] if source else words
        if source:
            found += [Restored(module, n, source.replace("*", n), since, changed) for n in names]
            names = []
    return found


#: the rows of names that still exist
CHANGED = _rows(_CHANGED, True)


@cache
def by_module() -> dict[str, dict[str, Restored]]:
    """Module to name to row."""
    found: dict[str, dict[str, Restored]] = {}
    for row in [*_rows(_REMOVED, False), *CHANGED]:
        found.setdefault(row.module, {})[row.name] = row
    return found


def modules() -> set[str]:
    """The modules with rows, and the packages above them."""
    return {name for full in by_module() for name in (full, full.partition(".")[0])}
