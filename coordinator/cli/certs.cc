// `longhaul certs`: needs no coordinator.
#include "absl/strings/str_cat.h"
#include "coordinator/cli/certificate_authority.h"
#include "coordinator/cli/commands.h"

namespace longhaul::cli {
namespace {

std::string DateOf(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d", time, absl::UTCTimeZone());
}

CertificateKind KindOf(const std::string& word) {
  return word == "pool"          ? CertificateKind::kPool
         : word == "coordinator" ? CertificateKind::kCoordinator
                                 : CertificateKind::kUser;
}

}  // namespace

Outcome Certs(const Arguments& arguments) {
  const std::string ca = arguments.certs_dir + "/ca.pem";
  const bool init = arguments.command == "certs init";
  const absl::StatusOr<CertificateFiles> files =
      init ? InitAuthority(arguments.certs_dir, arguments.days.value_or(kAuthorityDays))
           : IssueCertificate(arguments.certs_dir,
                              {KindOf(arguments.certificate_kind), arguments.certificate_name,
                               arguments.hosts, arguments.days.value_or(kCertificateDays)});
  if (!files.ok()) return ErrorOf(files.status(), ExitOfFiles(files.status()));
  const std::string text =
      init ? absl::StrCat("the authority is in ", arguments.certs_dir, ", until ",
                          DateOf(files->end), ". Every program gets ", ca, "; ", files->key,
                          " stays here and is secret: it signs certificates\n")
           : absl::StrCat("valid until ", DateOf(files->end), ":\n  --tls-ca ", ca,
                          " --tls-certificate ", files->certificate, " --tls-key ", files->key,
                          "\n");
  return {Json{{"ca", ca},
               {"certificate", files->certificate},
               {"key", files->key},
               {"valid_until",
                absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", files->end, absl::UTCTimeZone())}},
          text};
}

}  // namespace longhaul::cli
