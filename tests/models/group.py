"""Several tests of this folder in one process.

    group.py BUILD/bin NAME...    NAME is that of NAME_test.py, which also runs alone
"""

import hugging_face  # noqa: F401  First: it goes over to an environment that has what the tests import.

import sys
import unittest

unittest.main(module=None, argv=[sys.argv[0], "-v", *(f"{name}_test" for name in sys.argv[2:])])
