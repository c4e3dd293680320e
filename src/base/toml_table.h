// toml_table.h: a TOML table read key by key, with errors that a person can act on.
//
// Every key that is asked for is known; `finish` refuses the others. The first fault is kept, with
// file, line and what is allowed; later questions then change nothing. Pure; one owner; borrows the
// parsed table, which must outlive it.
#pragma once
#include <toml++/toml.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace hg {

class TomlTable {
 public:
  // `path` names the table in errors ("refusal", "" for the outermost).
  TomlTable(std::string file, std::string path, const toml::table& table,
            std::optional<Error>& first_error);

  // Each leaves the target as it was when the key is absent.
  void text(std::string_view key, std::string& target);
  void texts(std::string_view key, std::vector<std::string>& target);
  void flag(std::string_view key, bool& target);
  void flag(std::string_view key, std::optional<bool>& target);
  // Whole or not, within the bounds, both included.
  void number(std::string_view key, double least, double most, double& target);
  void integer(std::string_view key, std::int64_t least, std::int64_t most, std::int64_t& target);
  void integers(std::string_view key, std::int64_t least, std::int64_t most,
                std::vector<int>& target);
  void seconds(std::string_view key, double least, double most, Micros& target);
  void seconds(std::string_view key, double least, double most, std::optional<Micros>& target);
  // One of `allowed`; its place there.
  std::optional<std::size_t> choice(std::string_view key,
                                    const std::vector<std::string_view>& allowed);
  // Prose beside a number: any text, nothing is kept.
  void evidence();

  // A table inside; nothing when absent.
  [[nodiscard]] std::optional<TomlTable> table(std::string_view key);
  [[nodiscard]] std::vector<TomlTable> tables(std::string_view key);

  // Refuses keys that nobody asked for.
  void finish();
  // Keeps a fault of the whole table ("must have a name").
  void complain(std::string_view what);

 private:
  [[nodiscard]] const toml::node* find(std::string_view key);
  void fault(const toml::node& node, std::string_view key, std::string_view allowed);

  std::string file_;
  std::string path_;
  const toml::table* table_;
  std::optional<Error>* first_error_;
  std::vector<std::string> known_;
};

}  // namespace hg
