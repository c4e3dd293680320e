// test_identity.h: certificates that tests make for themselves.
//
// For tests only.
#pragma once
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <functional>
#include <memory>
#include <string>

namespace hg::net {

template <typename T, void (*Free)(T*)>
struct FreeBy {
  void operator()(T* pointer) const { Free(pointer); }
};
using Key = std::unique_ptr<EVP_PKEY, FreeBy<EVP_PKEY, EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, FreeBy<X509, X509_free>>;

inline std::string pem_of(const std::function<int(BIO*)>& write) {
  BIO* bio = BIO_new(BIO_s_mem());
  write(bio);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio, &bytes);
  std::string text(bytes, static_cast<std::size_t>(size));
  BIO_free(bio);
  return text;
}

struct Identity {
  std::string certificate;  // PEM.
  std::string key;          // PEM.
};

// A certificate for this name, signed by itself, valid from an hour ago to `valid_seconds` ahead.
inline Identity make_identity(const std::string& name, long valid_seconds) {
  const Key key(EVP_EC_gen("P-256"));
  const Certificate certificate(X509_new());
  X509* x509 = certificate.get();
  X509_set_version(x509, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
  X509_gmtime_adj(X509_getm_notBefore(x509), -3600);
  X509_gmtime_adj(X509_getm_notAfter(x509), valid_seconds);
  X509_set_pubkey(x509, key.get());
  X509_NAME* subject = X509_get_subject_name(x509);
  const auto* text = reinterpret_cast<const unsigned char*>("Headgate test");
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, text, -1, -1, 0);
  X509_set_issuer_name(x509, subject);
  const std::string names = "DNS:" + name;
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name,
                                                  names.c_str());
  X509_add_ext(x509, extension, -1);
  X509_EXTENSION_free(extension);
  X509_sign(x509, key.get(), EVP_sha256());
  Identity identity;
  identity.certificate = pem_of([&](BIO* bio) { return PEM_write_bio_X509(bio, x509); });
  identity.key = pem_of([&](BIO* bio) {
    return PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  return identity;
}

}  // namespace hg::net
