/* interrupt.c: Ctrl-C ends a command that computes cleanly. */
#include "interrupt.h"

#include <signal.h>

static volatile sig_atomic_t interrupted;

static void note_signal(int number) {
    interrupted = number;
}

void cli_catch_interrupts(void) {
    struct sigaction action = {.sa_handler = note_signal};
    action.sa_flags = (int)SA_RESETHAND;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    struct sigaction before; /* nohup ignores it */
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, NULL);
}

bool cli_is_interrupted(void) {
    return interrupted != 0;
}

bool cli_goes_on(void *context, uint64_t done, uint64_t total) {
    (void)context, (void)done, (void)total;
    return interrupted == 0;
}
