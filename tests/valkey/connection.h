// connection.h: the plainest client that a test needs: one blocking connection, pipelined.
//
// For tests and benchmarks. Keeps both texts of the script loaded; a reply is awaited for 60 s.
#pragma once
#include <hiredis/hiredis.h>

#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "gate/script.h"

namespace hg::valkey {

using gate::script::Value;

class Connection {
 public:
  explicit Connection(const std::string& socket_path) {
    const timeval patience{60, 0};
    context_.reset(redisConnectUnixWithTimeout(socket_path.c_str(), patience));
    if (!context_ || context_->err != 0) throw std::runtime_error("cannot connect");
    redisSetTimeout(context_.get(), patience);
    for (const auto which : {gate::script::Text::taking, gate::script::Text::releasing}) {
      load(which, gate::script::text(which));
    }
  }

  // Puts another text in the place of one of the script's.
  void load(gate::script::Text which, std::string_view text) {
    const Value digest = command({"SCRIPT", "LOAD", std::string(text)});
    if (digest.kind != Value::Kind::text) throw std::runtime_error(digest.text);
    digests_[static_cast<std::size_t>(which)] = digest.text;
  }

  void send(const std::vector<std::string>& words) { append(words); }
  void send(const gate::script::PoolKeys& keys, const gate::script::Call& call) {
    words_.clear();
    words_.emplace_back("EVALSHA");
    words_.push_back(digests_[static_cast<std::size_t>(call.text)]);
    words_.push_back(std::to_string(keys.all().size()));
    words_.insert(words_.end(), keys.all().begin(), keys.all().end());
    words_.insert(words_.end(), call.args.begin(), call.args.end());
    append(words_);
  }
  Value receive() {
    void* reply = nullptr;
    if (redisGetReply(context_.get(), &reply) != REDIS_OK) {
      throw std::runtime_error(std::string("the server went away: ") + context_->errstr);
    }
    const std::unique_ptr<redisReply, Free> owned(static_cast<redisReply*>(reply));
    return to_value(*owned);
  }

  Value command(const std::vector<std::string>& words) {
    send(words);
    return receive();
  }
  Value run(const gate::script::PoolKeys& keys, const gate::script::Call& call) {
    send(keys, call);
    return receive();
  }
  [[nodiscard]] const std::string& digest(gate::script::Text which) const {
    return digests_[static_cast<std::size_t>(which)];
  }

 private:
  struct Free {
    void operator()(redisContext* context) const { redisFree(context); }
    void operator()(redisReply* reply) const { freeReplyObject(reply); }
  };

  void append(const std::vector<std::string>& words) {
    arguments_.clear();
    lengths_.clear();
    for (const std::string& word : words) {
      arguments_.push_back(word.data());
      lengths_.push_back(word.size());
    }
    redisAppendCommandArgv(context_.get(), static_cast<int>(words.size()), arguments_.data(),
                           lengths_.data());
  }

  static Value to_value(const redisReply& reply) {
    Value value;
    switch (reply.type) {
      case REDIS_REPLY_INTEGER:
        value.kind = Value::Kind::integer;
        value.integer = reply.integer;
        break;
      case REDIS_REPLY_STRING:
      case REDIS_REPLY_STATUS:
        value.kind = Value::Kind::text;
        value.text.assign(reply.str, static_cast<std::size_t>(reply.len));
        break;
      case REDIS_REPLY_ERROR:
        value.kind = Value::Kind::error;
        value.text.assign(reply.str, static_cast<std::size_t>(reply.len));
        break;
      case REDIS_REPLY_ARRAY:
        value.kind = Value::Kind::list;
        for (std::size_t i = 0; i < reply.elements; ++i) {
          value.items.push_back(to_value(*reply.element[i]));
        }
        break;
      default: break;
    }
    return value;
  }

  std::unique_ptr<redisContext, Free> context_;
  std::array<std::string, 2> digests_;
  std::vector<std::string> words_;
  std::vector<const char*> arguments_;
  std::vector<std::size_t> lengths_;
};

}  // namespace hg::valkey
