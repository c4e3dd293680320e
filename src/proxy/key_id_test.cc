#include "proxy/key_id.h"

#include <gtest/gtest.h>

namespace hg::proxy {
namespace {

TEST(KeyIdTest, TellsKeysApartAndHidesThem) {
  const std::vector<std::string> fields = {"x-api-key", "authorization"};
  Headers one;
  one.add("X-Api-Key", "sk-secret-1");
  one.add("Authorization", "Bearer other");
  Headers two;
  two.add("authorization", "Bearer sk-secret-2");
  EXPECT_EQ(key_id(one, fields, "salt").size(), 12U);
  EXPECT_EQ(key_id(one, fields, "salt"), key_id(one, fields, "salt"));
  EXPECT_NE(key_id(one, fields, "salt"), key_id(two, fields, "salt"));
  EXPECT_NE(key_id(one, fields, "salt"), key_id(one, fields, "another salt"));
  EXPECT_EQ(key_id(one, fields, "salt").find("secret"), std::string::npos);
  EXPECT_EQ(key_id(Headers(), fields, "salt"), "nokey");
}

// RFC 4231, test case 2.
TEST(KeyIdTest, IsHmacSha256) {
  EXPECT_EQ(salted_id("what do ya want for nothing?", "Jefe"), "5bdcc146bf60");
}

}  // namespace
}  // namespace hg::proxy
