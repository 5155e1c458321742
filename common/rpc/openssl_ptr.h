// Smart pointers for objects of OpenSSL.
#pragma once

#include <memory>

#include "openssl/bio.h"
#include "openssl/evp.h"
#include "openssl/x509.h"
#include "openssl/x509v3.h"

namespace longhaul {

template <auto kFree>
struct OpensslFree {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
template <typename T, auto kFree>
using OpensslPtr = std::unique_ptr<T, OpensslFree<kFree>>;

using BioPtr = OpensslPtr<BIO, BIO_free_all>;
using CertificatePtr = OpensslPtr<X509, X509_free>;
using RevocationsPtr = OpensslPtr<X509_CRL, X509_CRL_free>;
using KeyPtr = OpensslPtr<EVP_PKEY, EVP_PKEY_free>;
using NamesPtr = OpensslPtr<GENERAL_NAMES, GENERAL_NAMES_free>;

}  // namespace longhaul
