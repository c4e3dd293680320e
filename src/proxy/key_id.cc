#include "proxy/key_id.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <optional>

#include <fmt/format.h>

#include "base/assert.h"

namespace hg::proxy {

std::string salted_id(std::string_view text, std::string_view salt) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  const unsigned char* done = HMAC(EVP_sha256(), salt.data(), static_cast<int>(salt.size()),
                                   reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                                   digest.data(), &size);
  HG_ASSERT(done != nullptr && size >= 6);
  std::string id;
  for (std::size_t i = 0; i < 6; ++i) id += fmt::format("{:02x}", digest[i]);
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
