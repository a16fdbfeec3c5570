/* use_c99.c: a C99 program can use the headers: every _INIT macro makes an object of its type, and
 * the program links with the whole library and with the planner alone. */
#include <cairn.h>
#include <cairn/arrays.h>
#include <cairn/budget.h>
#include <cairn/page.h>
#include <cairn/safetensors.h>
#include <cairn/papers.h>
#include <cairn/report.h>
#include <stdio.h>

int main(void) {
#include "every_init.inc" /* made by test_install.sh from the headers */
    cairn_machine machine = CAIRN_MACHINE_INIT;
    if (cairn_machine_find("v100", &machine, NULL) != CAIRN_OK)
        return 1;
    printf("%s %s\n", cairn_version(), machine.name);
    return 0;
}
