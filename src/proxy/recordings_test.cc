// Real traffic through the shim, byte by byte: recorded answers of providers on their way down, and
// what agents really send on its way up. Read in place; each test skips where the data is absent.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "proxy/raw_provider.h"
#include "proxy/shim_bench.h"

namespace hg::proxy {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

fs::path data(std::string_view folder) { return fs::path(HG_SHARED_DIR) / "data" / folder; }

std::string slurp(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool belongs_to_one_connection(const std::string& name) {
  for (const char* one : {"connection", "keep-alive", "transfer-encoding", "te", "upgrade",
                          "trailer", "proxy-connection"}) {
    if (iequals(name, one)) return true;
  }
  return false;
}

std::string path_of_url(std::string_view url) {
  const std::size_t host = url.find("//");
  const std::size_t path = url.find('/', host == url.npos ? 0 : host + 2);
  return path == url.npos ? "/" : std::string(url.substr(path));
}

using RecordingsTest = RawBench;

// The head of a recorded answer. Some recorders joined duplicates into lists.
std::string head_of(const json::object& meta, bool chunked, std::size_t size) {
  std::string head = fmt::format("HTTP/1.1 {} As Recorded\r\n", meta.at("status").as_int64());
  for (const auto& [name, value] : meta.at("headers").as_object()) {
    if (belongs_to_one_connection(name) || iequals(name, "content-length")) continue;
    // Recorders store bodies unpacked; the coding that was undone is not named again.
    if (iequals(name, "content-encoding")) continue;
    if (value.is_array()) {
      for (const json::value& one : value.as_array()) {
        head += fmt::format("{}: {}\r\n", std::string(name), std::string(one.as_string()));
      }
    } else {
      head += fmt::format("{}: {}\r\n", std::string(name), std::string(value.as_string()));
    }
  }
  return head + (chunked ? "Transfer-Encoding: chunked\r\n\r\n"
                         : fmt::format("Content-Length: {}\r\n\r\n", size));
}

std::string chunked(const std::string& body, std::size_t piece) {
  std::string out;
  for (std::size_t at = 0; at < body.size(); at += piece) {
    const std::string part = body.substr(at, piece);
    out += net::chunk_prefix(part.size()) + part + "\r\n";
  }
  return out + std::string(net::kLastChunk);
}

// The one refusal among them is absorbed, as it should be, and tells nothing about bytes.
constexpr int kLoadStatus = 429;

TEST_F(RecordingsTest, EveryAnswerComesDownAsItWasSent) {
  if (!fs::exists(data("recordings"))) GTEST_SKIP() << "no recordings beside the repository";
  start_raw();
  std::size_t seen = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(data("recordings"))) {
    const std::string file = entry.path().filename().string();
    if (!file.ends_with(".meta.json")) continue;
    const std::string stem = file.substr(0, file.size() - std::string(".meta.json").size());
    const json::object meta = json::parse(slurp(entry.path())).as_object();
    if (meta.at("status").as_int64() == kLoadStatus) continue;
    std::string body;
    for (const char* kind : {"json", "sse", "eventstream"}) {
      const fs::path path = data("recordings") / fmt::format("{}.resp.{}", stem, kind);
      if (fs::exists(path)) body = slurp(path);
    }
    const fs::path request_path = data("recordings") / (stem + ".req.json");
    const std::string request = fs::exists(request_path) ? slurp(request_path) : "";
    const bool in_chunks = meta.at("headers").as_object().contains("transfer-encoding") ||
                           meta.at("stream").as_bool();
    const std::string head = head_of(meta, in_chunks, body.size());
    const std::string asked = fmt::format(
        "{} {} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: "
        "close\r\nContent-Length: {}\r\n\r\n{}",
        std::string(meta.at("method").as_string()),
        path_of_url(std::string(meta.at("url").as_string())), request.size(), request);
    for (const std::size_t piece : {std::size_t{1} << 20U, std::size_t{37}}) {
      raw_->answer = head + (in_chunks ? chunked(body, piece) : body);
      raw_->step = piece == 37 ? 1'111 : piece;
      const std::size_t before = raw_->asked.size();
      std::string down = loop_.run(ask(loop_.executor(), shim_port_, asked));
      ASSERT_TRUE(down.ends_with("[end]")) << stem << ": " << down.substr(0, 300);
      down.resize(down.size() - std::string("[end]").size());
      std::string want = head;
      if (in_chunks) want.resize(want.size() - 2);
      if (!in_chunks) want.resize(want.size() - 2);
      want += "Connection: close\r\n\r\n";
      EXPECT_EQ(down.substr(0, want.size()), want) << stem;
      const std::string got = down.substr(std::min(want.size(), down.size()));
      EXPECT_EQ(in_chunks ? unchunked(got) : got, body) << stem;
      ASSERT_EQ(raw_->asked.size(), before + 1) << stem;
      EXPECT_EQ(raw_->asked.back().body, request) << stem;
      EXPECT_EQ(raw_->asked.back().head.substr(0, raw_->asked.back().head.find('\r')),
                asked.substr(0, asked.find('\r')))
          << stem;
    }
    ++seen;
  }
  EXPECT_GT(seen, 100U);
}

std::string plain_body(std::string_view path, bool stream) {
  if (path.find("/messages") != path.npos) return anthropic_body(stream);
  if (path.find("/chat/") != path.npos) return chat_body(stream);
  if (path.find("/responses") != path.npos) {
    return fmt::format(R"({{"model":"gpt-5","stream":{},"input":"Hello"}})", stream);
  }
  return R"({"contents":[{"role":"user","parts":[{"text":"Hello"}]}]})";
}

TEST_F(RecordingsTest, EveryRequestGoesUpWithEachHeaderInItsPlace) {
  if (!fs::exists(data("harness_requests"))) GTEST_SKIP() << "no requests beside the repository";
  start_raw();
  raw_->answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
  std::size_t seen = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(data("harness_requests"))) {
    if (entry.path().extension() != ".json") continue;
    const json::value requests = json::parse(slurp(entry.path()));
    for (const json::value& one : requests.as_array()) {
      const json::object& request = one.as_object();
      if (!request.contains("headers_in_order")) continue;  // A note about something else.
      const std::string line(request.at("request").as_string());
      const std::string where = entry.path().filename().string() + ": " + line;
      const bool has_body = line.starts_with("POST");
      std::string body = has_body ? plain_body(line, request.at("stream") == true) : "";
      bool websocket = false;
      std::string fields;
      std::vector<std::pair<std::string, std::string>> want;
      for (const json::value& field : request.at("headers_in_order").as_array()) {
        const std::string name(field.at(0).as_string());
        std::string value(field.at(1).as_string());
        if (iequals(name, "content-encoding")) {
          std::string coded(ZSTD_compressBound(body.size()), ' ');
          coded.resize(ZSTD_compress(coded.data(), coded.size(), body.data(), body.size(), 3));
          body = coded;
        }
        websocket = websocket || iequals(value, "websocket");
        want.emplace_back(name, value);
      }
      std::erase_if(want, [](const auto& field) { return iequals(field.first, "connection"); });
      for (auto& [name, value] : want) {
        if (iequals(name, "content-length")) value = std::to_string(body.size());
        if (iequals(name, "host")) value = "127.0.0.1";
        fields += fmt::format("{}: {}\r\n", name, value);
      }
      raw_->asked.clear();
      const std::string down = loop_.run(
          ask(loop_.executor(), shim_port_,
              line + " HTTP/1.1\r\n" + fields + "Connection: close\r\n\r\n" + body));
      if (websocket) {
        EXPECT_TRUE(down.starts_with("HTTP/1.1 426 ")) << where << "\n" << down;
        continue;
      }
      const bool probe = line == "HEAD /" || line == "GET /";
      if (probe) {
        EXPECT_TRUE(down.starts_with("HTTP/1.1 200 ")) << where << "\n" << down;
        continue;
      }
      ASSERT_EQ(raw_->asked.size(), 1U) << where << "\n" << down;
      std::string head = line + " HTTP/1.1\r\n";
      for (auto& [name, value] : want) {
        if (belongs_to_one_connection(name)) continue;
        if (iequals(name, "host")) value = fmt::format("127.0.0.1:{}", raw_->port());
        head += fmt::format("{}: {}\r\n", name, value);
      }
      EXPECT_EQ(raw_->asked[0].head, head + "\r\n") << where;
      EXPECT_EQ(raw_->asked[0].body, body) << where;
      ++seen;
    }
  }
  EXPECT_GT(seen, 25U);
}

}  // namespace
}  // namespace hg::proxy
