"""run_tests.py on ctest folders that are made here: each exit status, and what is said of skipped cases.

    run_tests_test.py [unittest arguments]
"""
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import run_tests
import skips

HERE = pathlib.Path(__file__).resolve().parent
# Fails the first time, and passes when it runs again.
FLAKY = "test -e ran || { touch ran; echo beside others; exit 1; }"
# As GoogleTest says it.
GTEST_SKIP = """cat <<'END'
[ RUN      ] ATest.Works
[       OK ] ATest.Works (0 ms)
[ RUN      ] All/ATest.NeedsSomething/0
tests/a_test.cc:30: Skipped
{reason}

[  SKIPPED ] All/ATest.NeedsSomething/0, where GetParam() = 1 (2 ms)
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] All/ATest.NeedsSomething/0, where GetParam() = 1
END"""
UNITTEST = '''
import unittest
class ATest(unittest.TestCase):
    def test_works(self):
        pass
    @unittest.skip("{reason}")
    def test_needs_something(self):
        """It has a line that says what it does."""
    def test_finds_out(self):
        print("a line between")
        self.skipTest("{reason}")
unittest.main()
'''


class RunTestsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = pathlib.Path(folder.name)
        self.tests = ""

    def add(self, name, script, *properties):
        self.tests += f"add_test({name} sh -c [==[{script}]==])\n"
        if properties:
            self.tests += f"set_tests_properties({name} PROPERTIES {' '.join(properties)})\n"

    def add_unittest(self, name, reason, *flags):
        path = self.build / f"{name}.py"
        path.write_text(UNITTEST.format(reason=reason))
        self.add(name, f"'{sys.executable}' {path} {' '.join(flags)}")

    def run_tests(self, *arguments, ci=False):
        (self.build / "CTestTestfile.cmake").write_text(self.tests)
        environment = {name: value for name, value in os.environ.items() if name != "CI"}
        result = subprocess.run([sys.executable, "-B", HERE / "run_tests.py", "--build", self.build, *arguments], capture_output=True, text=True,
                                env={**environment, **({"CI": "true"} if ci else {})}, check=False)
        self.said = result.stdout
        return result.returncode

    def assert_closed_by(self, line):
        """Once, at the end, though other tests ran again."""
        self.assertEqual(self.said.splitlines()[-1], line)
        self.assertEqual([other for other in self.said.splitlines() if "tests passed" in other and other != line], [])

    def test_all_pass(self):
        self.add("quick", "true")
        self.add("slow", "sleep 0.3")
        self.assertEqual(self.run_tests("--jobs", "2"), 0)
        self.assert_closed_by("100% tests passed, 0 tests failed out of 2")
        slowest = self.said[self.said.index("the slowest"):]
        self.assertLess(slowest.index("slow\n"), slowest.index("quick\n"))
        self.assertIn("0 skipped", self.said)
        self.assertTrue((self.build / "Testing/tests.xml").exists())

    def test_a_test_that_fails_again_has_failed(self):
        self.add("good", "true")
        self.add("broken", "echo why; false")
        self.add("flaky", FLAKY)
        self.assertEqual(self.run_tests(), run_tests.FAILED)
        self.assertIn("FAILED: broken\n", self.said)
        self.assertIn("UNSTEADY: these tests failed beside others and passed alone: flaky\n", self.said)
        self.assert_closed_by("33% tests passed, 2 tests failed out of 3")

    def test_a_test_that_passes_alone_is_unsteady_which_is_an_error(self):
        self.add("good", "true")
        self.add("flaky", FLAKY)
        self.assertEqual(self.run_tests(), run_tests.UNSTEADY)
        self.assertIn("beside others\n", self.said)
        self.assertIn("UNSTEADY: these tests failed beside others and passed alone: flaky\n", self.said)
        self.assertNotIn("\nFAILED: ", self.said)
        self.assert_closed_by("50% tests passed, 1 tests failed out of 2")

    def test_the_second_run_is_as_the_first(self):
        self.tests += 'if(CTEST_CONFIGURATION_TYPE MATCHES "^more$")\n'
        self.add("flaky", FLAKY + " && sleep 0")
        self.add("slow", "sleep 30")
        self.tests += "endif()\n"
        self.assertEqual(self.run_tests("-C", "more", "--timeout", "1"), run_tests.FAILED)
        self.assertEqual(self.said.count("***Timeout"), 2)
        self.assertIn("passed alone: flaky\n", self.said)
        self.assertIn("\nFAILED: slow\n", self.said)

    def test_many_failures_do_not_run_again(self):
        for number in range(run_tests.RERUN_MAX + 1):
            self.add(f"test{number}", FLAKY.replace("ran", f"ran{number}"))
        self.assertEqual(self.run_tests(), run_tests.FAILED)
        self.assertNotIn("run again", self.said)

    def test_no_test_at_all_has_failed(self):
        self.add("good", "true")
        self.assertEqual(self.run_tests("-R", "nowhere"), run_tests.FAILED)

    def test_a_test_that_is_not_built_has_failed(self):
        self.tests += "add_test(gone /nowhere/at/all)\n"
        self.assertEqual(self.run_tests(), run_tests.FAILED)
        self.assertIn("\nFAILED: gone\n", self.said)
        self.assertIn("\n0 skipped\n", self.said)

    def test_a_skip_for_an_unknown_reason_is_named_and_in_ci_an_error(self):
        self.add("program", GTEST_SKIP.format(reason="the moon is not full"))
        self.assertEqual(self.run_tests(), 0)
        self.assertIn("SKIPPED, the moon is not full (tests/gate/skips.py does not know this reason):\n"
                      "  program: All/ATest.NeedsSomething/0\n1 skipped\n", self.said)
        self.assertEqual(self.run_tests(ci=True), run_tests.SKIPPED)
        self.assertIn("WRONGLY SKIPPED, the moon is not full", self.said)
        self.assert_closed_by("100% tests passed, 0 tests failed out of 1")

    def test_what_python_skips_is_named(self):
        self.add_unittest("python", "the moon is not full", "-v")
        self.assertEqual(self.run_tests(ci=True), run_tests.SKIPPED)
        self.assertIn("2 skipped", self.said)
        self.assertIn("python: It has a line", self.said)
        self.assertEqual(self.said.count("WRONGLY SKIPPED, the moon is not full"), 1)

    def test_what_python_only_counts_is_counted(self):
        self.add_unittest("python", "the moon is not full")
        self.assertEqual(self.run_tests(ci=True), run_tests.SKIPPED)
        self.assertIn("2 skipped", self.said)
        self.assertIn("python: a case without a name", self.said)

    def test_a_test_that_is_skipped_as_a_whole_says_why(self):
        self.add("by_status", "echo first; echo the moon is not full; exit 77", "SKIP_RETURN_CODE", "77")
        self.add("by_words", "echo no moon", "SKIP_REGULAR_EXPRESSION", '"no moon"')
        self.assertEqual(self.run_tests(ci=True), run_tests.SKIPPED)
        self.assertIn("WRONGLY SKIPPED, the moon is not full (tests/gate/skips.py does not know this reason):\n  by_status: all of it\n", self.said)
        self.assertIn("  by_words: all of it\n", self.said)
        self.assertIn("2 skipped", self.said)

    def test_what_a_machine_lacks_may_be_skipped_and_what_it_has_may_not(self):
        reason, known = "no CUDA device: no driver (libcuda.so.1)", dict.fromkeys((fact for _, fact in skips.REASONS), False)
        self.assertEqual(skips.verdict(reason, known), skips.LACKS)
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertTrue(run_tests.judge_skips([("a test", reason)], known, strict=True))
            known["CUDA device"] = True
            self.assertEqual(skips.verdict(reason, known), skips.HAS)
            self.assertFalse(run_tests.judge_skips([("a test", reason)], known, strict=False))

    def test_every_reason_has_its_fact(self):
        known = skips.facts(self.build)
        for pattern, fact in skips.REASONS:
            self.assertIn(fact, known, pattern)
        self.assertTrue(known["build without sanitizers"])
        (self.build / "CMakeCache.txt").write_text("LONGHAUL_SANITIZE:STRING=\n")
        self.assertTrue(skips.facts(self.build)["build without sanitizers"])
        (self.build / "CMakeCache.txt").write_text("LONGHAUL_SANITIZE:STRING=thread\n")
        self.assertFalse(skips.facts(self.build)["build without sanitizers"])


if __name__ == "__main__":
    unittest.main()
