//! Files that appear under their name when they are complete.

use oar_core::base::{Error, Result};
use oar_core::err;
use std::fs::{remove_file, rename, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::Path;

fn failed(path: &Path, e: &std::io::Error) -> Error {
    err!(External, "cannot write {}: {e}", path.display())
}

/// Writes a file in the folder of `path` and renames it. Other files and links are neither overwritten nor followed.
pub fn replace(path: &Path, write: impl FnOnce(&mut BufWriter<std::fs::File>) -> Result<()>) -> Result<()> {
    let mut part = path.as_os_str().to_os_string();
    part.push(format!(".{}.part", std::process::id()));
    let part = Path::new(&part);
    // Left over from a killed process with this number.
    let _ = remove_file(part);
    let file = OpenOptions::new().write(true).create_new(true).open(part).map_err(|e| failed(part, &e))?;
    let mut file = BufWriter::new(file);
    let done = write(&mut file).and_then(|()| {
        file.flush().and_then(|()| file.get_ref().sync_all()).map_err(|e| failed(part, &e))?;
        rename(part, path).map_err(|e| failed(path, &e))
    });
    if done.is_err() {
        let _ = remove_file(part);
    }
    done
}
