"""What pyproject.toml cannot say: muster._fast is compiled where that is possible, and is left out where it is not."""
from setuptools import Extension, setup

setup(ext_modules=[Extension("muster._fast", ["src/muster/_fast.c"], optional=True)])
