//! The functions that need no connection: texts, keywords, memory, formats, the library itself.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use super::Player;
use crate::call;
use crate::memory;

/// How many different library calls there are.
pub const LIBRARY_CALLS: usize = 6;

impl Player {
    pub fn library_call(&self, number: usize) {
        match number {
            0 => self.ask_library(),
            1 => self.ask_complete(),
            2 => self.ask_keywords(),
            3 => self.ask_memory(),
            4 => self.ask_formats(),
            _ => self.ask_texts(),
        }
    }

    fn ask_library(&self) {
        let (api, log) = (self.api, &self.log);
        log.value("libversion", memory::text(call!(api, libversion())));
        log.value("libversion_number", call!(api, libversion_number()));
        log.value("sourceid", memory::text(call!(api, sourceid())));
        log.value("threadsafe", call!(api, threadsafe()));
        log.code("initialize", call!(api, initialize()));
        for option in [c"THREADSAFE", c"ENABLE_FTS5", c"NO_SUCH_OPTION"] {
            log.value("compileoption_used", call!(api, compileoption_used(option.as_ptr())));
        }
        for index in -1..100 {
            let option = call!(api, compileoption_get(index));
            log.value("compileoption_get", memory::text(option));
        }
        let vfs = call!(api, vfs_find(c"unix".as_ptr()));
        log.value("vfs_find(unix)", !vfs.is_null());
        log.value("vfs_find(NULL)", !call!(api, vfs_find(ptr::null())).is_null());
        log.value("vfs_find(none)", !call!(api, vfs_find(c"none".as_ptr())).is_null());
        for code in [0, 1, 5, 14, 19, 26, 100, 101, 261, 516, 517, 2067, 9999, -1] {
            log.message("errstr", memory::text(call!(api, errstr(code))));
        }
    }

    fn ask_complete(&self) {
        for sql in [
            "",
            "SELECT 1",
            "SELECT 1;",
            "/* x",
            "CREATE TRIGGER x BEGIN SELECT 1;",
            "CREATE TRIGGER x BEGIN SELECT 1; END;",
            "SELECT ';",
        ] {
            let text = memory::c_text(sql);
            self.log.value("complete", call!(self.api, complete(text.as_ptr())));
            let text = memory::utf16(sql);
            let answer = call!(self.api, complete16(text.as_ptr().cast()));
            self.log.value("complete16", answer);
        }
    }

    fn ask_keywords(&self) {
        let count = call!(self.api, keyword_count());
        self.log.value("keyword_count", count);
        for index in -1..=count {
            let (mut name, mut length): (*const c_char, c_int) = (ptr::null(), 0);
            let code = call!(self.api, keyword_name(index, &mut name, &mut length));
            self.log.code("keyword_name", code);
            if code == 0 {
                self.log.value("keyword", memory::bytes(name.cast(), length));
            }
        }
        self.log.value("keyword_check", call!(self.api, keyword_check(c"select".as_ptr(), 6)));
        self.log.value("keyword_check", call!(self.api, keyword_check(c"selec".as_ptr(), 5)));
    }

    fn ask_memory(&self) {
        let api = self.api;
        let memory = call!(api, malloc(10));
        let memory = call!(api, realloc(memory, 100));
        let memory = call!(api, realloc64(memory, 200));
        self.log.value("msize is enough", call!(api, msize(memory)) >= 200);
        call!(api, free(memory));
        let small = call!(api, malloc64(7));
        call!(api, free(small));
        self.log.value("malloc(0)", call!(api, malloc(0)).is_null());
        let (mut now, mut highest) = (0, 0);
        self.log.code("status", call!(api, status(0, &mut now, &mut highest, 0)));
        let (mut now, mut highest) = (0, 0);
        self.log.code("status64", call!(api, status64(0, &mut now, &mut highest, 0)));
        self.log.code("status of no number", call!(api, status64(99, &mut now, &mut highest, 0)));
        self.log.value("soft_heap_limit64", call!(api, soft_heap_limit64(-1)));
        self.log.value("hard_heap_limit64", call!(api, hard_heap_limit64(-1)));
        call!(api, release_memory(100));
        let mut bytes = [0_u8; 8];
        let place: *mut c_void = bytes.as_mut_ptr().cast();
        call!(api, randomness(8, place));
        self.log.value("randomness writes", bytes != [0; 8]);
        self.log.value("sleep", call!(api, sleep(0)));
    }

    fn ask_formats(&self) {
        let api = self.api;
        let quoted = c"it's".as_ptr();
        let text =
            call!(api, mprintf(c"%d|%s|%q|%Q|%w".as_ptr(), 7_i32, quoted, quoted, quoted, quoted));
        self.log.value("mprintf", memory::text(text));
        call!(api, free(text.cast()));
        let mut room = [0 as c_char; 8];
        let text = call!(api, snprintf(8, room.as_mut_ptr(), c"%08d!".as_ptr(), 42_i32));
        self.log.value("snprintf", memory::text(text));
        let string = call!(api, str_new(ptr::null_mut()));
        call!(api, str_append(string, quoted, 2));
        call!(api, str_appendall(string, quoted));
        call!(api, str_appendchar(string, 3, b'z' as c_char));
        call!(api, str_appendf(string, c"%5.2f %lld".as_ptr(), 2.345_f64, 1_i64 << 40));
        self.log.value("str_length", call!(api, str_length(string)));
        self.log.code("str_errcode", call!(api, str_errcode(string)));
        self.log.value("str_value", memory::text(call!(api, str_value(string))));
        let text = call!(api, str_finish(string));
        self.log.value("str_finish", memory::text(text));
        call!(api, free(text.cast()));
        let string = call!(api, str_new(ptr::null_mut()));
        call!(api, str_appendall(string, quoted));
        call!(api, str_reset(string));
        self.log.value("str_finish of nothing", call!(api, str_finish(string)).is_null());
    }

    fn ask_texts(&self) {
        let api = self.api;
        for (left, right) in [(c"abc", c"ABC"), (c"a*c", c"axxc"), (c"a_c", c"abc"), (c"", c"x")] {
            let (left, right) = (left.as_ptr(), right.as_ptr());
            self.log.value("stricmp", call!(api, stricmp(left, right)).signum());
            self.log.value("strnicmp", call!(api, strnicmp(left, right, 2)).signum());
            self.log.value("strglob", call!(api, strglob(left, right)));
            self.log.value("strlike", call!(api, strlike(left, right, 0)));
        }
    }
}
