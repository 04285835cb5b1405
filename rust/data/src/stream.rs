//! Batches of files while they are read, for queue data sets. Each training thread has a reader, which starts with the
//! file of its own index, continues with files that no reader has started, and parses a few blocks ahead.

use super::batch::{assemble, Batch, Batches};
use super::block::Block;
use super::desc::Desc;
use super::read::{Reading, Stop};
use oar_core::base::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::Arc;

/// Number of blocks parsed ahead.
const AHEAD: usize = 2;

struct Stream {
    desc: Arc<Desc>,
    blocks: Receiver<Result<Block>>,
    /// Started blocks, with the first instance that was not returned yet.
    held: Vec<(Block, usize)>,
    stop: Arc<Stop>,
    ended: bool,
}

/// The batches of `readers` threads over all files.
pub fn streams(
    desc: &Arc<Desc>,
    reading: &Arc<Reading>,
    readers: usize,
    stop: &Arc<Stop>,
) -> Result<Vec<Box<dyn Batches>>> {
    let next = Arc::new(AtomicUsize::new(readers));
    (0..readers)
        .map(|first| {
            let (to, blocks) = sync_channel(AHEAD);
            let (desc_, reading, next, stop_) = (desc.clone(), reading.clone(), next.clone(), stop.clone());
            let run = move || read_files(&desc_, &reading, first, &next, &stop_, &to);
            std::thread::Builder::new().name("paddle-feed".into()).spawn(run).map_err(Error::from)?;
            let stream = Stream { desc: desc.clone(), blocks, held: Vec::new(), stop: stop.clone(), ended: false };
            Ok(Box::new(stream) as _)
        })
        .collect()
}

fn read_files(
    desc: &Desc,
    reading: &Reading,
    first: usize,
    next: &AtomicUsize,
    stop: &Arc<Stop>,
    to: &SyncSender<Result<Block>>,
) {
    let gone = || Error::new(ErrorKind::Unavailable, "the receiver of the batches has ended");
    let all = || -> Result<()> {
        let (mut file, mut text) = (first, Vec::new());
        while file < reading.files.len() && !stop.asked() {
            for piece in reading.pieces(file, false)? {
                reading.read(desc, piece, &mut text, stop, &mut |block| to.send(Ok(block)).map_err(|_| gone()))?;
            }
            file = next.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    if let Err(e) = all() {
        // The receiver may have been dropped.
        let _ = to.send(Err(e));
    }
}

impl Batches for Stream {
    fn next(&mut self) -> Result<Option<Batch>> {
        let size = self.desc.batch_size;
        let width = self.desc.width();
        while self.held.iter().map(|(b, from)| b.len() - from).sum::<usize>() < size && !self.stop.asked() {
            match self.blocks.recv() {
                Ok(block) => self.held.push((block?, 0)),
                Err(_) => break,
            }
        }
        if self.stop.asked() {
            return Ok(None);
        }
        let instances = self.held.iter().flat_map(|(b, from)| (*from..b.len()).map(move |i| b.instance(i, width)));
        let batch = assemble(&self.desc, instances.take(size))?;
        let mut left = batch.instances;
        for (block, from) in &mut self.held {
            let n = left.min(block.len() - *from);
            *from += n;
            left -= n;
        }
        self.held.retain(|(b, from)| *from < b.len());
        self.ended = batch.instances == 0;
        Ok((!self.ended).then_some(batch))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Dropping one reader before its end stops all.
        if !self.ended {
            self.stop.ask();
        }
    }
}
