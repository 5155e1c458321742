#include "common/rpc/tls_reload.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/certificate_dates.h"
#include "common/rpc/pem_file.h"
#include "openssl/err.h"

namespace longhaul {
namespace {

constexpr size_t kKnownMax = 10'000;

// The key comes first: OpenSSL passes over what is not of the kind that it looks for.
std::string IdentityOf(const TlsContents& contents) {
  return absl::StrCat(contents.key, "\n", contents.certificate);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsReload>> TlsReload::Start(Options options) {
  auto reload = absl::WrapUnique(new TlsReload(std::move(options)));
  LH_ASSIGN_OR_RETURN(const TlsContents contents, reload->Read());
  LH_ASSIGN_OR_RETURN(reload->ca_, MemoryFile::Create(""));
  if (!reload->options_.authorities_only) {
    LH_ASSIGN_OR_RETURN(reload->identity_, MemoryFile::Create(""));
  }
  {
    absl::MutexLock lock(&reload->mutex_);
    LH_RETURN_IF_ERROR(reload->Take(contents));
  }
  reload->thread_ = std::thread([self = reload.get()] {
    while (!self->stop_.WaitForNotificationWithTimeout(self->options_.every)) self->Look();
  });
  return reload;
}

TlsReload::~TlsReload() {
  if (!thread_.joinable()) return;
  stop_.Notify();
  thread_.join();
}

absl::StatusOr<TlsContents> TlsReload::Read() const {
  return options_.authorities_only ? ReadAuthorities(options_.files.ca)
                                   : ReadTlsFiles(options_.files);
}

absl::Status TlsReload::Take(const TlsContents& contents) {
  if (identity_ != nullptr) {
    LH_ASSIGN_OR_RETURN(const CertificateDates dates,
                        DatesInPem(contents.certificate, options_.files.certificate));
    LH_RETURN_IF_ERROR(identity_->Replace(IdentityOf(contents)));
    until_ = dates.until;
  }
  LH_RETURN_IF_ERROR(ca_->Replace(contents.ca));
  revoked_.reset();
  known_.clear();
  if (!contents.crl.empty()) {
    LH_ASSIGN_OR_RETURN(revoked_,
                        RevocationList::Parse(contents.crl, contents.ca, options_.files.crl));
  }
  in_use_ = contents;
  return absl::OkStatus();
}

void TlsReload::Look() {
  const absl::StatusOr<TlsContents> contents = Read();
  absl::MutexLock lock(&mutex_);
  absl::Status status = contents.status();
  const bool changed = status.ok() && *contents != in_use_;
  if (changed) status = Take(*contents);
  if (!status.ok()) {
    if (trouble_ == status.message()) return;
    trouble_ = std::string(status.message());
    if (options_.log.has_value()) {
      options_.log->Warning(absl::StrCat(
          trouble_, "; the TLS files that were read before stay in use for new connections"));
    }
    return;
  }
  trouble_.clear();
  if (changed && options_.log.has_value())
    options_.log->Info("new connections use the new TLS files");
}

TlsContents TlsReload::contents() const {
  absl::MutexLock lock(&mutex_);
  return in_use_;
}

bool TlsReload::refused() const {
  absl::MutexLock lock(&mutex_);
  return !trouble_.empty();
}

bool TlsReload::IsRevoked(const std::string& certificate) const {
  absl::MutexLock lock(&mutex_);
  if (!revoked_.has_value()) return false;
  const auto known = known_.find(certificate);
  if (known != known_.end()) return known->second;
  const CertificatePtr parsed = NextCertificate(ReaderOf(certificate).get());
  ERR_clear_error();
  const bool revoked = parsed != nullptr && revoked_->Contains(parsed.get());
  if (known_.size() >= kKnownMax) known_.clear();
  known_[certificate] = revoked;
  return revoked;
}

std::optional<absl::Time> TlsReload::certificate_until() const {
  absl::MutexLock lock(&mutex_);
  return until_;
}

}  // namespace longhaul
