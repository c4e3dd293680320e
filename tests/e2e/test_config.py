"""Arguments, configuration and help: what is wrong is named, with its place and what is allowed."""
import unittest

from hg import BINARY, Case

COMMANDS = ("exec", "serve", "doctor", "pools", "harness", "demo", "provider")


class Configuration(Case):
    def refused(self, file_text, *says, arguments=(), environment=None):
        path = self.directory / "headgate.toml"
        path.write_text(file_text)
        done = self.headgate("serve", "--config", path, *arguments, environment=environment)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertTrue(done.stderr.startswith("headgate: "), done.stderr)
        for text in says:
            self.assertIn(text, done.stderr)

    def test_an_unknown_key_names_file_line_and_what_is_allowed(self):
        self.refused("\n[pool.main]\nr_tokk = 5\n", "headgate.toml:3:", '"r_tokk"',
                     "did you mean r_tok?", "allowed are:", "c_burst")

    def test_an_impossible_number_names_file_line_and_what_is_allowed(self):
        self.refused("[pool.main]\nc_burst = -1\n", "headgate.toml:2:", "pool.main.c_burst = -1",
                     "a whole number of tokens, 1 to 1,000,000,000")

    def test_broken_toml_names_its_line(self):
        self.refused("listen = \n", "headgate.toml:1:", "not TOML")

    def test_an_unknown_profile_names_the_known_ones(self):
        self.refused('[upstream.x]\nurl = "http://127.0.0.1:1"\nprofile = "nope"\n',
                     "headgate.toml:3:", "nope", "allowed are:", "anthropic")

    def test_a_pool_of_an_unknown_upstream_is_refused(self):
        self.refused('[upstream.x]\nurl = "http://127.0.0.1:1"\n[pool.p]\nupstream = "y"\n',
                     "headgate.toml:4:", "pool.p.upstream = y", "allowed are: x")

    def test_a_flag_that_is_impossible_is_named(self):
        self.refused("", "--body-limit", "a size from 1KiB to 1GiB",
                     arguments=("--body-limit", "5"))
        self.refused("", "--set pool.main.r_tok", "tokens a second",
                     arguments=("--set", "pool.main.r_tok=0"))
        self.refused("", "--upstream", "http", arguments=("--upstream", "ftp://host"))

    def test_a_variable_that_is_impossible_is_named(self):
        self.refused("", "HEADGATE_POOL_MAIN_R_TOK", "tokens a second",
                     environment={"HEADGATE_POOL_MAIN_R_TOK": "fast"})
        self.refused("", "HEADGATE_POOL_MAIN_RTOK: unknown",
                     environment={"HEADGATE_POOL_MAIN_RTOK": "1"})

    def test_a_file_that_is_not_there_is_named(self):
        done = self.headgate("serve", "--config", "/nonexistent/x.toml")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nonexistent/x.toml", done.stderr)

    def test_profiles_of_ones_own_are_checked(self):
        profiles = self.directory / "profiles"
        profiles.mkdir()
        (profiles / "mine.toml").write_text('harness = "mine"\nhold_cap_s = "long"\n')
        self.refused("", "mine.toml", arguments=("--profiles-dir", profiles))

    def test_a_key_in_a_wrong_place_is_not_repeated(self):
        path = self.directory / "headgate.toml"
        path.write_text('[upstream.x]\nurl = "https://me:sk-SECRET@host"\napi_key = "sk-SECRET"\n')
        done = self.headgate("serve", "--config", path)
        self.assertEqual(done.returncode, 2)
        self.assertNotIn("SECRET", done.stderr)

    def test_unknown_arguments_are_refused(self):
        for arguments in (("frobnicate",), ("serve", "--nope"), ("provider", "--port", "99999"),
                          ("demo", "--agents", "0"), ("exec",)):
            done = self.headgate(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn("headgate", done.stderr)

    def test_a_wrong_word_is_met_with_the_nearest_and_with_the_help_of_its_subcommand(self):
        rows = ((("srve",), "did you mean serve?", "headgate --help"),
                (("frobnicate",), "frobnicate", "headgate --help"),
                (("serve", "--upstrem", "x"), "did you mean --upstream?", "headgate serve --help"),
                (("provider", "--port", "99999"), "99999", "headgate provider --help"),
                (("exec",), "no program", "headgate exec --help"))
        for arguments, says, help_of in rows:
            done = self.headgate(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(says, done.stderr)
            self.assertIn(f"see {help_of}", done.stderr)

    def test_a_listener_for_all_is_warned_of_within_80_columns(self):
        serve = self.start("serve", BINARY, "serve", "--json", "--listen", "0.0.0.0:0")
        serve.first_line()
        self.assertIn("WARNING: listening on 0.0.0.0", serve.err)
        self.assertEqual([line for line in serve.err.splitlines() if len(line) > 80], [])

    def test_another_users_runtime_directory_is_refused(self):
        open_to_all = self.directory / "open"
        open_to_all.mkdir()
        open_to_all.chmod(0o777)
        done = self.headgate("serve", "--runtime-dir", open_to_all)
        self.assertEqual(done.returncode, 1)
        self.assertIn("nobody else may enter", done.stderr)


class Help(Case):
    def test_help_fits_80_columns_and_has_examples(self):
        for arguments in ((), *((command,) for command in COMMANDS)):
            done = self.headgate(*arguments, "--help")
            self.assertEqual(done.returncode, 0)
            self.assertIn("Examples:", done.stdout)
            long_lines = [line for line in done.stdout.splitlines() if len(line) > 80]
            self.assertEqual(long_lines, [], arguments)
            self.assertNotRegex(done.stdout, r" in \[|:INT|WITHIN|:\{")
            self.assertNotIn("\x1b", done.stdout)

    def test_a_subcommand_shows_only_flags_that_it_reads(self):
        for command in ("pools", "harness"):
            self.assertNotIn("--listen", self.headgate(command, "--help").stdout)

    def test_the_version_is_said(self):
        done = self.headgate("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"^headgate \d+\.\d+\.\d+\n$")

    def test_the_reference_of_keys_fits_80_columns(self):
        done = self.headgate("serve", "--keys")
        self.assertEqual(done.returncode, 0)
        for key in ("listen", "[upstream.NAME]", "url", "[pool.NAME]", "k_inflight", "priorities"):
            self.assertIn(key, done.stdout)
        self.assertEqual([line for line in done.stdout.splitlines() if len(line) > 80], [])

    def test_every_key_is_in_the_documentation(self):
        with open("docs/configuration.md", encoding="utf-8") as file:
            text = file.read()
        lines = self.headgate("serve", "--keys").stdout.splitlines()
        keys = [line.split(" = ")[0] for line in lines if " = ..." in line]
        self.assertGreater(len(keys), 20)
        self.assertEqual([key for key in keys if f"`{key}`" not in text], [])


if __name__ == "__main__":
    unittest.main()
