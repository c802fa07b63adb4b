//! Incremental blobs.

use std::ptr;

use super::Player;
use crate::action::BlobPlace;
use crate::call;
use crate::library::Blob;
use crate::memory;

/// Reads of a round are short.
const BYTES_MAX: usize = 64;

impl Player {
    pub fn blob_open(
        &mut self,
        blob: usize,
        connection: usize,
        place: BlobPlace,
        rowid: i64,
        write: bool,
    ) {
        let Some(db) = self.db(connection) else { return };
        self.blob_close(blob);
        let (schema, table, column) = match place {
            BlobPlace::Table => (c"main", c"t", c"a"),
            BlobPlace::WrongTable => (c"main", c"none", c"a"),
            BlobPlace::WrongColumn => (c"main", c"t", c"none"),
            BlobPlace::Indexed => (c"main", c"t", c"b"),
            BlobPlace::WithoutRowid => (c"main", c"u", c"v"),
            BlobPlace::Temp => (c"temp", c"tt", c"x"),
        };
        let mut handle: *mut Blob = ptr::null_mut();
        let (schema, table, column) = (schema.as_ptr(), table.as_ptr(), column.as_ptr());
        let code = call!(
            self.api,
            blob_open(db, schema, table, column, rowid, i32::from(write), &mut handle)
        );
        self.log.code("blob_open", code);
        self.log.message("errmsg after blob_open", memory::text(call!(self.api, errmsg(db))));
        self.log.value("blob_open gave a blob", !handle.is_null());
        if !handle.is_null() {
            self.log.value("blob_bytes", call!(self.api, blob_bytes(handle)));
            self.blobs[blob] = Some(handle);
        }
    }

    pub fn blob_read(&self, blob: usize, count: i32, offset: i32) {
        let Some(blob) = self.blobs[blob] else { return };
        let mut bytes = [0_u8; BYTES_MAX];
        let code = call!(self.api, blob_read(blob, bytes.as_mut_ptr().cast(), count, offset));
        self.log.code("blob_read", code);
        self.log.value("blob_read gave", memory::bytes(bytes.as_ptr().cast(), count));
    }

    pub fn blob_write(&self, blob: usize, text: &str, offset: i32) {
        let Some(blob) = self.blobs[blob] else { return };
        let count = i32::try_from(text.len()).expect("texts of a round are short");
        let code = call!(self.api, blob_write(blob, text.as_ptr().cast(), count, offset));
        self.log.code("blob_write", code);
    }

    pub fn blob_reopen(&self, blob: usize, rowid: i64) {
        let Some(blob) = self.blobs[blob] else { return };
        self.log.code("blob_reopen", call!(self.api, blob_reopen(blob, rowid)));
        self.log.value("blob_bytes", call!(self.api, blob_bytes(blob)));
    }

    pub fn blob_close(&mut self, blob: usize) {
        let Some(blob) = self.blobs[blob].take() else { return };
        self.log.code("blob_close", call!(self.api, blob_close(blob)));
    }
}
