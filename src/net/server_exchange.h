// server_exchange.h: ServerExchange over a Connection. Inside net only.
//
// Frames what the handler sends, unframes what the client sent, and knows whether the connection
// can be used again. Lives on the stack of the connection's coroutine.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "net/connection.h"
#include "net/framing_guard.h"
#include "net/server.h"

namespace hg::net {

class Exchange final : public ServerExchange {
 public:
  enum class Reuse : std::uint8_t { allowed, forbidden };

  // `config` outlives the exchange. The head has been taken off the connection's input.
  Exchange(std::shared_ptr<Connection> connection, const ServerConfig& config,
           GuardedRequest request);
  ~Exchange() override;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  [[nodiscard]] const RequestHead& head() const override { return request_.head; }
  [[nodiscard]] const BodyFraming& body_framing() const override { return request_.body; }
  [[nodiscard]] Headers take_fields() override {
    return std::exchange(request_.head.headers, Headers());
  }
  [[nodiscard]] Task<Result<std::string>> read_body(std::size_t bytes_max) override;
  void on_gone(std::function<void()> gone) override;
  [[nodiscard]] bool gone() const override { return gone_; }
  [[nodiscard]] Task<Result<void>> send_head(ResponseHead head, BodyFraming body,
                                             std::string_view first) override;
  [[nodiscard]] Task<Result<void>> send_some(std::string_view bytes) override;
  [[nodiscard]] Task<Result<void>> finish() override;
  void abort() override;
  [[nodiscard]] Task<Result<void>> reply(ResponseHead head, std::string_view body) override;
  [[nodiscard]] bool head_sent() const override { return head_sent_; }
  [[nodiscard]] std::string peer() const override { return connection_->peer(); }

  // ---- For the server.
  // The answer to come is the last one on this connection.
  void forbid_reuse() { reuse_ = Reuse::forbidden; }
  // Tells the handler that its client is gone (the server is stopping hard).
  void declare_gone();
  [[nodiscard]] bool finished() const { return finished_; }
  // After the handler: whether another request may follow on the connection.
  [[nodiscard]] bool may_continue() const;
  // Whether the client may still be sending what nobody will read.
  [[nodiscard]] bool body_unread() const { return !body_done_; }

 private:
  void body_is_done();
  void watch();
  std::string prepare_head(ResponseHead head, BodyFraming body);
  [[nodiscard]] Task<Result<void>> send_bytes(std::string_view head, std::string_view bytes);
  [[nodiscard]] Task<Result<void>> write(std::string_view first, std::string_view second = {},
                                         std::string_view third = {});
  [[nodiscard]] Task<Result<std::string>> read_length(std::uint64_t length);
  [[nodiscard]] Task<Result<std::string>> read_chunks(std::size_t bytes_max);

  std::shared_ptr<Connection> connection_;
  const ServerConfig& config_;
  GuardedRequest request_;
  std::function<void()> on_gone_;
  BodyFraming framing_;     // Of the answer.
  std::uint64_t left_ = 0;  // With BodyKind::length: payload bytes still to be sent.
  Reuse reuse_ = Reuse::allowed;
  bool body_done_ = false;  // The request has been read to its end.
  bool body_asked_ = false;
  bool gone_ = false;
  bool head_sent_ = false;
  bool bodiless_ = false;  // The answer has no body, whatever its fields say.
  bool finished_ = false;
};

}  // namespace hg::net
