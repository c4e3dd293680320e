// test_postgres.h: a PostgreSQL server of the tests' own, in a temporary folder, on a unix socket;
// started with the first question and ended with the process.
//
// It refuses to run as root: then it runs as nobody. Thread-safety: none; one test at a time.
#pragma once
#include <fcntl.h>
#include <soci/soci.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace hg::ledger {

class TestPostgres {
 public:
  // Null, with the reason in `why`, where Debian's PostgreSQL 15 is not installed.
  static TestPostgres* instance(std::string& why, bool durable = false) {
    static TestPostgres server(durable);
    why = server.fault_;
    return server.fault_.empty() ? &server : nullptr;
  }

  ~TestPostgres() {
    stop();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  TestPostgres(const TestPostgres&) = delete;
  TestPostgres& operator=(const TestPostgres&) = delete;

  // A new, empty database.
  [[nodiscard]] std::string new_database() {
    const std::string name = "ledger_" + std::to_string(++databases_);
    soci::session("postgresql", url("postgres")) << "CREATE DATABASE " + name;
    return url(name);
  }
  [[nodiscard]] std::string url(const std::string& database) const {
    return "postgresql://postgres@/" + database + "?host=" + folder_;
  }

  void start() {
    std::vector<std::string> words = {"-D", folder_ + "/data",  "-k", folder_,
                                      "-c", "listen_addresses="};
    if (!durable_) words.insert(words.end(), {"-c", "fsync=off"});
    server_ = spawn("postgres", words);
    while (!answers()) {
      int status = 0;
      if (::waitpid(server_, &status, WNOHANG) == server_) {
        server_ = -1;
        fault_ = "postgres ended at its start; see " + folder_ + "/log";
        return;
      }
    }
  }
  // As an operator does who has no time (pg_ctl -m fast): sessions are cut.
  void stop() {
    if (server_ <= 0) return;
    ::kill(server_, SIGINT);
    int status = 0;
    ::waitpid(server_, &status, 0);
    server_ = -1;
  }
  // As a machine that hangs: connections stay, nobody answers.
  void freeze() { signal_all(SIGSTOP); }
  void thaw() { signal_all(SIGCONT); }

 private:
  explicit TestPostgres(bool durable) : durable_(durable) {
    if (!std::filesystem::exists(kBin + "/postgres")) {
      fault_ = "no PostgreSQL 15 in " + kBin;
      return;
    }
    std::string made = (std::filesystem::temp_directory_path() / "hg-pg-XXXXXX").string();
    if (::mkdtemp(made.data()) == nullptr) {
      fault_ = "no temporary folder";
      return;
    }
    folder_ = made;
    if (::geteuid() == 0 && ::chown(folder_.c_str(), kNobody, kNobody) != 0) {
      fault_ = "chown of " + folder_;
      return;
    }
    const pid_t init = spawn("initdb", {"-D", folder_ + "/data", "-U", "postgres", "-A", "trust",
                                        "-E", "UTF8", "--locale=C", "--no-sync"});
    int status = 0;
    ::waitpid(init, &status, 0);
    if (status != 0) {
      fault_ = "initdb failed; see " + folder_ + "/log";
      return;
    }
    start();
  }

  // The program with these words, as nobody where this process is root; it dies with this process.
  [[nodiscard]] pid_t spawn(const std::string& program, const std::vector<std::string>& words) {
    std::vector<std::string> all = {"setpriv"};
    if (::geteuid() == 0) {
      all.insert(all.end(), {"--reuid=65534", "--regid=65534", "--clear-groups"});
    }
    all.insert(all.end(), {"--pdeathsig=QUIT", kBin + "/" + program});
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> pointers;
    for (std::string& word : all) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    const std::string log = folder_ + "/log";
    const pid_t child = ::fork();
    if (child == 0) {
      const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
      ::dup2(file, 1);
      ::dup2(file, 2);
      if (::chdir(folder_.c_str()) != 0) ::_exit(126);
      ::execvp("setpriv", pointers.data());
      ::_exit(127);
    }
    return child;
  }

  [[nodiscard]] bool answers() const {
    try {
      const soci::session session("postgresql", url("postgres"));
      return true;
    } catch (const soci::soci_error&) {
      return false;
    }
  }

  // The server and those that it started.
  void signal_all(int signal) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename().string();
      const pid_t process = static_cast<pid_t>(std::atoi(name.c_str()));
      if (process <= 0) continue;
      if (process == server_ || parent_of(process) == server_) ::kill(process, signal);
    }
  }
  static pid_t parent_of(pid_t process) {
    const std::string path = "/proc/" + std::to_string(process) + "/stat";
    const int file = ::open(path.c_str(), O_RDONLY);
    if (file < 0) return -1;
    char text[512] = {};
    const ssize_t got = ::read(file, text, sizeof(text) - 1);
    ::close(file);
    const std::string line(text, got > 0 ? static_cast<std::size_t>(got) : 0);
    const std::size_t at = line.rfind(')');
    return at == std::string::npos ? -1 : static_cast<pid_t>(std::atoi(line.c_str() + at + 4));
  }

  inline static const std::string kBin = "/usr/lib/postgresql/15/bin";
  static constexpr unsigned kNobody = 65534;
  bool durable_;
  std::string folder_;
  std::string fault_;
  pid_t server_ = -1;
  int databases_ = 0;
};

}  // namespace hg::ledger
