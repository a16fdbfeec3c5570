/* test_team.c: a team of threads runs every index once, with any number of threads. */
#include "base/team.h"
#include "check.h"

static void square(void *context, uint32_t index) {
    ((uint64_t *)context)[index] += (uint64_t)index * index;
}

static void test_team(void) {
    cairn_error err = {0};
    static uint64_t values[10000];
    for (uint32_t threads = 0; threads <= 8; threads++) {
        crn_team *team;
        CHECK_OK(crn_team_create(NULL, threads, &team, &err), &err);
        CHECK(threads == 0 || crn_team_threads(team) == threads);
        memset(values, 0, sizeof values);
        for (int round = 1; round <= 50; round++)
            crn_team_for(team, round % 7 == 0 ? 0 : 10000, square, values);
        bool right = true;
        for (uint64_t i = 0; i < 10000; i++)
            right = right && values[i] == 43 * i * i;
        CHECK(right);
        crn_team_destroy(team);
    }
    crn_team_destroy(NULL);
}

int main(void) {
    test_team();
    return check_result();
}
