//! What the disk and the wal-index hold: one page, one frame for each transaction.
//!
//! The database is a single page, whose content is how often each request was applied. So every frame
//! holds the whole database, and a commit that overwrites another's work is seen as its loss. What is
//! written is not on the disk before a sync: at a power cut each unsynced write stays or vanishes for
//! itself.

/// How often each request was applied: two bits each, so 3 means "more than twice".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Content(u32);

impl Content {
    /// The content after `request` was executed.
    pub fn with(self, request: u8) -> Content {
        let count = self.count(request);
        Content(if count == 3 { self.0 } else { self.0 + (1 << (2 * request)) })
    }

    pub fn count(self, request: u8) -> u32 {
        self.0 >> (2 * request) & 3
    }

    pub fn has(self, request: u8) -> bool {
        self.count(request) > 0
    }
}

/// Something that was written, and what of it no power cut can take away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Written<T> {
    pub now: T,
    pub durable: T,
}

impl<T: Copy + PartialEq> Written<T> {
    pub fn synced(value: T) -> Written<T> {
        Written { now: value, durable: value }
    }

    pub fn sync(&mut self) {
        self.durable = self.now;
    }

    fn is_dirty(&self) -> bool {
        self.now != self.durable
    }
}

/// The 24 bytes before a page in the WAL. The checksum covers all frames before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameHeader {
    pub salt: u8,
    pub checksum: u32,
}

impl FrameHeader {
    pub fn new(salt: u8, previous: u32, content: Content) -> FrameHeader {
        let mixed = (u64::from(previous) << 32 | u64::from(content.0)) ^ u64::from(salt) << 13;
        let mixed = mixed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        FrameHeader { salt, checksum: (mixed >> 32) as u32 }
    }
}

/// A place of the WAL that was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    pub header: FrameHeader,
    /// `None` when only the header was written, over what lay there.
    pub page: Option<Content>,
}

/// SQLite's `WalIndexHdr`: what readers begin with. Everything up to `frame_last` is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IndexHeader {
    pub salt: u8,
    pub frame_last: u8,
    /// Counts commits; a recovery starts it at 0.
    pub change: u8,
    /// Of the last frame.
    pub checksum: u32,
}

/// The -shm file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Index {
    /// The second is written first. Who begins trusts them only when they are equal; who reads already goes by the
    /// first when it takes the write lock.
    pub copies: [IndexHeader; 2],
    /// Frames that are in the database file (`nBackfill`).
    pub backfilled: u8,
}

/// The database file and its -wal and -shm files.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Files {
    /// The salt in the WAL's header.
    pub wal_salt: Written<u8>,
    pub frames: Vec<Written<Option<Frame>>>,
    pub database: Written<Content>,
    pub index: Index,
}

impl Files {
    /// A WAL of one synced frame, with a change counter of `change`.
    pub fn new(change: u8) -> Files {
        let header = FrameHeader::new(1, 0, Content::default());
        let frame = Frame { header, page: Some(Content::default()) };
        let first = IndexHeader { salt: 1, frame_last: 1, change, checksum: header.checksum };
        Files {
            wal_salt: Written::synced(1),
            frames: vec![Written::synced(Some(frame))],
            database: Written::synced(Content::default()),
            index: Index { copies: [first; 2], backfilled: 0 },
        }
    }

    /// The two copies of the header differ: their writer died between them, or is just there.
    pub fn is_torn(&self) -> bool {
        self.index.copies[0] != self.index.copies[1]
    }

    /// What a reader sees; nobody sees anything while the header is torn.
    pub fn visible(&self) -> Option<Content> {
        let [first, second] = self.index.copies;
        (first == second).then(|| self.content_at(first))
    }

    /// The snapshot of a reader or writer that begins with `header`.
    pub fn content_at(&self, header: IndexHeader) -> Content {
        let page = header.frame_last.checked_sub(1).map(|place| {
            let frame = self.frames[usize::from(place)].now;
            frame.and_then(|frame| frame.page).expect("a committed frame is whole")
        });
        page.unwrap_or(self.database.now)
    }

    /// Writes the header of the frame at `place`, as it lies in the file before its page.
    pub fn write_frame(&mut self, place: u8, frame: Option<Frame>) {
        let place = usize::from(place);
        if place == self.frames.len() {
            self.frames.push(Written::default());
        }
        self.frames[place].now = frame;
    }

    pub fn frame_header(&self, place: u8) -> Option<FrameHeader> {
        Some(self.frames.get(usize::from(place))?.now?.header)
    }

    pub fn sync_wal(&mut self) {
        self.wal_salt.sync();
        self.frames.iter_mut().for_each(Written::sync);
    }

    /// SQLite's recovery: the header that the file tells.
    pub fn recovered(&self) -> IndexHeader {
        let salt = self.wal_salt.now;
        let mut header = IndexHeader { salt, frame_last: 0, change: 0, checksum: 0 };
        for place in &self.frames {
            let Some(Frame { header: found, page: Some(content) }) = place.now else { break };
            if found != FrameHeader::new(salt, header.checksum, content) {
                break;
            }
            header.frame_last += 1;
            header.checksum = found.checksum;
        }
        header
    }

    /// Publishes what recovery finds.
    pub fn recover(&mut self) {
        self.index = Index { copies: [self.recovered(); 2], backfilled: 0 };
    }

    /// How many writes a power cut can undo.
    pub fn unsynced(&self) -> u32 {
        let frames = self.frames.iter().filter(|place| place.is_dirty()).count() as u32;
        u32::from(self.wal_salt.is_dirty()) + u32::from(self.database.is_dirty()) + frames
    }

    /// What is read after every process has died, and of the unsynced writes those were lost whose bit
    /// in `lost` is set.
    pub fn after_power_cut(&self, lost: u32) -> Content {
        let mut after = self.clone();
        let mut bit = 1;
        let mut lose = |dirty: bool| {
            let gone = dirty && lost & bit != 0;
            bit <<= u32::from(dirty);
            gone
        };
        if lose(after.wal_salt.is_dirty()) {
            after.wal_salt.now = after.wal_salt.durable;
        }
        for place in &mut after.frames {
            if lose(place.is_dirty()) {
                place.now = place.durable;
            }
        }
        if lose(after.database.is_dirty()) {
            after.database.now = after.database.durable;
        }
        after.content_at(after.recovered())
    }
}
