# The histories are recorded where the code runs at its full speed; the sanitizers have other tests.
VARIANTS_lin := release
