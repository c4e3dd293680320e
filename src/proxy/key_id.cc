#include "proxy/key_id.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <array>
#include <cstddef>
#include <optional>

#include "base/assert.h"

namespace hg::proxy {

namespace {

using Digest = std::array<unsigned char, EVP_MAX_MD_SIZE>;

// HMAC-SHA-256 with the key worked in already: that, and finding the algorithm, cost more than the
// few bytes that are hashed.
class Mac {
 public:
  explicit Mac(std::string_view salt) : salt_(salt) {
    EVP_MAC* const algorithm = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
    HG_ASSERT(algorithm != nullptr);
    context_ = EVP_MAC_CTX_new(algorithm);
    EVP_MAC_free(algorithm);  // The context holds it, too.
    char digest[] = "SHA256";
    const std::array<OSSL_PARAM, 2> parameters = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end()};
    // An empty key has to be said, because none at all means the key of before.
    const auto* key = reinterpret_cast<const unsigned char*>(salt_.c_str());
    const int done = EVP_MAC_init(context_, key, salt_.size(), parameters.data());
    HG_ASSERT(done == 1);
  }
  ~Mac() { EVP_MAC_CTX_free(context_); }
  Mac(const Mac&) = delete;
  Mac& operator=(const Mac&) = delete;

  [[nodiscard]] const std::string& salt() const { return salt_; }

  [[nodiscard]] bool digest(std::string_view text, Digest& out, std::size_t& size) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    return EVP_MAC_init(context_, nullptr, 0, nullptr) == 1 &&
           EVP_MAC_update(context_, bytes, text.size()) == 1 &&
           EVP_MAC_final(context_, out.data(), &size, out.size()) == 1;
  }

 private:
  std::string salt_;
  EVP_MAC_CTX* context_ = nullptr;
};

// A program has one salt.
Mac& mac_of(std::string_view salt) {
  static thread_local std::optional<Mac> mac;
  if (!mac || mac->salt() != salt) mac.emplace(salt);
  return *mac;
}

}  // namespace

std::string salted_id(std::string_view text, std::string_view salt) {
  Digest digest{};
  std::size_t size = 0;
  const bool done = mac_of(salt).digest(text, digest, size);
  HG_ASSERT(done && size >= 6);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string id;
  for (std::size_t i = 0; i < 6; ++i) {
    id += kDigits[digest[i] / 16];
    id += kDigits[digest[i] % 16];
  }
  return id;
}

std::string key_id(const Headers& request, const std::vector<std::string>& auth_headers,
                   std::string_view salt) {
  for (const std::string& name : auth_headers) {
    const std::optional<std::string_view> value = request.find(name);
    if (value && !value->empty()) return salted_id(*value, salt);
  }
  return "nokey";
}

}  // namespace hg::proxy
