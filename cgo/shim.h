// The C side of package cgo: a table of the functions of libnixl_capi.so, filled by dlsym.
#ifndef WARMPATH_CGO_SHIM_H
#define WARMPATH_CGO_SHIM_H

#include <stddef.h>

// A loaded library. Handles of the library (agents, lists) are opaque pointers, its statuses plain ints.
typedef struct wp_nixl wp_nixl;

enum { WP_NIXL_OK = 0, WP_NIXL_OPEN = 1, WP_NIXL_SYMBOL = 2 };

// Loads the library at path (a file, or a name that the loader searches). On failure returns NULL and sets *why to a
// WP_NIXL_ value and *text to the loader's words or the missing function's name; the caller frees *text.
wp_nixl *wp_nixl_open(const char *path, int *why, char **text);

int wp_nixl_agent_create(wp_nixl *lib, const char *name, void **agent);
int wp_nixl_agent_destroy(wp_nixl *lib, void *agent);

// Lists the plugins that the agent finds. *names gets their names one after another, each ended by a zero byte, *len
// bytes in all; the caller frees *names.
int wp_nixl_plugins(wp_nixl *lib, void *agent, char **names, size_t *len);

#endif
