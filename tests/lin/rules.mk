# The histories are recorded where the code runs at its full speed, and in a shorter form where every access is checked.
VARIANTS_lin := release asan
