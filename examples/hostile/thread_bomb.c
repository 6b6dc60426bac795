/* Starts threads without end. */
#include <pthread.h>
#include <unistd.h>

static void *wait_for_ever(void *arg) {
    (void)arg;
    for (;;)
        pause();
}

int main(void) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (;;) {
        pthread_t t;
        pthread_create(&t, &small, wait_for_ever, 0);
    }
}
