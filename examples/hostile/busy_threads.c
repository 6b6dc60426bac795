/* Uses every processor there is. */
#include <pthread.h>

static void *spin(void *arg) {
    (void)arg;
    for (volatile long i = 0;; i++)
        ;
}

int main(void) {
    pthread_t t;
    for (int i = 0; i < 8; i++)
        pthread_create(&t, 0, spin, 0);
    spin(0);
}
