"""Two minutes of small and large calls through one gate over real sockets: reported, and all are
answered. The simulator's hour is what the promise is held to."""
import unittest

from hg import Case


class Fairness(Case):
    def run_fairness(self, load):
        done = self.headgate("demo", "--fairness", "--seconds", "120", "--load", load, timeout=400)
        print(done.stdout)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_more_than_the_rate_is_asked_for(self):
        self.run_fairness(1.3)

    def test_less_than_the_rate_is_asked_for(self):
        self.run_fairness(0.9)


if __name__ == "__main__":
    unittest.main()
