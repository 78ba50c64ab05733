/* getaddrinfo() for tests: every name has the addresses ::1 and 127.0.0.1, in this order. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <stddef.h>
#include <string.h>

typedef int (*lookup)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **found) {
    lookup real = (lookup)dlsym(RTLD_NEXT, "getaddrinfo");
    struct in6_addr number;
    if (node == NULL || inet_pton(AF_INET, node, &number) == 1 ||
        inet_pton(AF_INET6, node, &number) == 1) {
        return real(node, service, hints, found);
    }
    int failed = real("::1", service, hints, found);
    if (failed) {
        return failed;
    }
    struct addrinfo *last = *found;
    while (last->ai_next != NULL) {
        last = last->ai_next;
    }
    return real("127.0.0.1", service, hints, &last->ai_next);
}
