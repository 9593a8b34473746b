/* tests/topology/fake_nvml_old.c: the fake libnvidia-ml.so.1 of an old driver, which lacks what came later. */
#define FAKE_OLD 1
#include "fake_nvml.c"
