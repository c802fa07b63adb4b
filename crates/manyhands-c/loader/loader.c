/*
** A small sqlite3.c for drivers that compile SQLite into themselves. It has SQLite's functions and nothing behind them: each is
** a jump to the function of the same name in libmanyhands_sqlite3.so, so several programs can write one file at once.
** generate.py adds the names.
**
** The library is looked for when the object that contains this file is loaded, in this order:
**   1. MANYHANDS_LIBRARY in the environment: the file, or its folder. If it is set, nothing else is tried.
**   2. -DMANYHANDS_LIBRARY="/the/path" when this file is compiled
**   3. beside the object that contains this file
**   4. libmanyhands_sqlite3.so on the usual library path
** If the library is in none of these places, the first call says what to do, and aborts. A program that never calls is not disturbed.
**
** What always holds:
**   * A jump leaves arguments, stack and result as they are, so functions of any type work, variadic ones too.
**   * The functions are hidden, so another SQLite in the process cannot take their place. -DMANYHANDS_EXPORT makes them visible to
**     other objects, for a shared library that is built from this file alone.
**   * sqlite3_version is filled from the library. sqlite3_temp_directory and sqlite3_data_directory are the library's own variables:
**     the sqlite3.h beside this file makes them macros. Code that declares them itself does not link.
**
** Options of SQLite (-DSQLITE_...) do nothing here: the library was built with all that a driver may look for. Link-time
** optimization (-flto) does not see names in assembly: compile this file without it.
*/
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A program that includes this file as a whole expects SQLite's declarations after it. They are declared as they are
** defined here, whatever the driver's flags say. */
#undef SQLITE_API
#undef SQLITE_EXTERN
#ifndef SQLITE3_H
#include "sqlite3.h"
#endif

#if !defined(__ELF__) || defined(__ILP32__)
#error "The loader of Manyhands is for 64-bit systems with ELF"
#endif
#ifndef RTLD_NODELETE
#define RTLD_NODELETE 0x1000
#endif

#define MANYHANDS_FILE "libmanyhands_sqlite3.so"
#define MANYHANDS_HIDDEN __attribute__((visibility("hidden")))
/* Assembly alone may use it. */
#define MANYHANDS_USED __attribute__((used))
#ifdef MANYHANDS_EXPORT
#define MANYHANDS_VISIBLE(name) ".globl " #name "\n"
#else
#define MANYHANDS_VISIBLE(name) ".globl " #name "\n.hidden " #name "\n"
#endif

/* A call of function n goes through word n of the table. What takes the place of an absent function finds n in a register that
** no call uses. An indirect call may land only on the first instruction, where the processor checks that. */
#if defined(__x86_64__)
#define MANYHANDS_JUMP(n) "endbr64\nmov $" #n ", %r11d\njmp *manyhands_loader_table+8*" #n "(%rip)\n"
#define MANYHANDS_ABSENT "endbr64\nmov %r11d, %edi\nsub $8, %rsp\ncall manyhands_loader_give_up\n"
#elif defined(__aarch64__)
#define MANYHANDS_JUMP(n) \
  "hint #34\nmov w17, #" #n "\nadrp x16, manyhands_loader_table+8*" #n "\n" \
  "ldr x16, [x16, :lo12:manyhands_loader_table+8*" #n "]\nbr x16\n"
#define MANYHANDS_ABSENT "hint #34\nmov w0, w17\nbl manyhands_loader_give_up\n"
#else
#error "The loader of Manyhands is for x86-64 and aarch64"
#endif
#define MANYHANDS_CODE(name, visible, text) \
  __asm__(".pushsection .text\n.p2align 4\n" visible ".type " #name ", %function\n" #name ":\n" text ".size " #name ", .-" #name "\n.popsection\n");
#define MANYHANDS_FUNCTION(n, name) MANYHANDS_CODE(name, MANYHANDS_VISIBLE(name), MANYHANDS_JUMP(n))
#define MANYHANDS_NAME(n, name) #name,

/*NAMES*/

static const char *const manyhands_names[] = {MANYHANDS_FUNCTIONS(MANYHANDS_NAME)};
#define MANYHANDS_COUNT (sizeof manyhands_names / sizeof manyhands_names[0])

typedef void (*manyhands_function)(void);
MANYHANDS_HIDDEN MANYHANDS_USED manyhands_function manyhands_loader_table[MANYHANDS_COUNT];
MANYHANDS_FUNCTIONS(MANYHANDS_FUNCTION)

/* The header calls the version constant, and it is known only when the library is. */
__asm__(".pushsection .data\n" MANYHANDS_VISIBLE(sqlite3_version) ".hidden manyhands_loader_version\n.globl manyhands_loader_version\n"
        ".type sqlite3_version, %object\nsqlite3_version:\nmanyhands_loader_version:\n.zero 32\n.size sqlite3_version, 32\n.popsection\n");
extern MANYHANDS_HIDDEN char manyhands_loader_version[32];

static char **manyhands_temp_directory;
static char **manyhands_data_directory;
/* What the first call says if the library is not there. */
static char manyhands_tried[4096];
static char manyhands_beside[PATH_MAX];

MANYHANDS_HIDDEN void manyhands_loader_give_up(int n) __attribute__((noreturn));
MANYHANDS_HIDDEN MANYHANDS_USED void manyhands_loader_give_up(int n) {
  fprintf(stderr,
          "manyhands: the program calls %s, and " MANYHANDS_FILE ", which has it, could not be loaded. Set MANYHANDS_LIBRARY to the path "
          "of the library, or put it beside %s. Tried:\n%s",
          manyhands_names[n], manyhands_beside, manyhands_tried);
  abort();
}

extern MANYHANDS_HIDDEN void manyhands_loader_absent(void);
MANYHANDS_CODE(manyhands_loader_absent, ".globl manyhands_loader_absent\n.hidden manyhands_loader_absent\n", MANYHANDS_ABSENT)

static void manyhands_note(const char *what, const char *why) {
  size_t length = strlen(manyhands_tried);
  snprintf(manyhands_tried + length, sizeof manyhands_tried - length, "  %s%s\n", what, why);
}

static void *manyhands_open(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  const char *error = library ? 0 : dlerror();
  if (error) manyhands_note(error, "");
  return library;
}

/* Cuts a path to its folder. */
static void manyhands_folder_of(char *path) {
  char *end = strrchr(path, '/');
  *(end ? end : path) = 0;
}

/* The object with this code, in which folder the library may lie. A program found by its name alone is known to the system. */
static void manyhands_find_object(void) {
  Dl_info here;
  const char *object = "/proc/self/exe";
  if (dladdr((void *)manyhands_loader_table, &here) && here.dli_fname && strchr(here.dli_fname, '/')) object = here.dli_fname;
  if (!realpath(object, manyhands_beside)) manyhands_beside[0] = 0;
}

static void *manyhands_find(void) {
  char path[PATH_MAX + sizeof MANYHANDS_FILE + 1];
  /* A program with more rights than its user takes no library from the environment. */
  const char *named = secure_getenv("MANYHANDS_LIBRARY");
  struct stat is;
  void *library = 0;
  manyhands_find_object();
  if (named && *named) {
    if (stat(named, &is) == 0 && S_ISDIR(is.st_mode)) {
      if (snprintf(path, sizeof path, "%s/" MANYHANDS_FILE, named) >= (int)sizeof path) return 0;
      named = path;
    }
    return manyhands_open(named);
  }
#ifdef MANYHANDS_LIBRARY
  library = manyhands_open(MANYHANDS_LIBRARY);
#endif
  if (!library && manyhands_beside[0]) {
    memcpy(path, manyhands_beside, strlen(manyhands_beside) + 1);
    manyhands_folder_of(path);
    strcat(path, "/" MANYHANDS_FILE);
    library = manyhands_open(path);
  }
  return library ? library : manyhands_open(MANYHANDS_FILE);
}

/* Before the constructors of the driver, which may call SQLite. */
__attribute__((constructor(101))) static void manyhands_load(void) {
  void *library = manyhands_find();
  const char *version = library ? (const char *)dlsym(library, "sqlite3_version") : 0;
  size_t n;
  for (n = 0; n < MANYHANDS_COUNT; n++) {
    manyhands_function function = 0;
    /* ISO C has no conversion from a pointer to data, which dlsym gives. */
    if (library) *(void **)&function = dlsym(library, manyhands_names[n]);
    if (library && !function) manyhands_note(manyhands_names[n], " is not in the library that was loaded");
    manyhands_loader_table[n] = function ? function : manyhands_loader_absent;
  }
  if (!library) return;
  if (version) snprintf(manyhands_loader_version, sizeof manyhands_loader_version, "%s", version);
  manyhands_temp_directory = (char **)dlsym(library, "sqlite3_temp_directory");
  manyhands_data_directory = (char **)dlsym(library, "sqlite3_data_directory");
}

/* The library's variables; without the library, there is a place for what is set before the first call. */
MANYHANDS_HIDDEN char **manyhands_loader_temp_directory(void) {
  static char *nowhere;
  return manyhands_temp_directory ? manyhands_temp_directory : &nowhere;
}

MANYHANDS_HIDDEN char **manyhands_loader_data_directory(void) {
  static char *nowhere;
  return manyhands_data_directory ? manyhands_data_directory : &nowhere;
}
