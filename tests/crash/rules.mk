# Single-stepping needs the step builds: no position-independent code, -O2 and -O3, by gcc and by clang.
VARIANTS_crash := step step3 step-clang step3-clang
