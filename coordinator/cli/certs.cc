// `longhaul certs`: needs no coordinator.
#include "absl/strings/str_cat.h"
#include "coordinator/cli/certificate_authority.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/site_kit.h"

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

std::string TimeOf(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

Outcome Revoke(const Arguments& arguments) {
  const absl::StatusOr<CertificateFiles> files =
      RevokeCertificate(arguments.certs_dir, arguments.certificate_name);
  if (!files.ok()) return ErrorOf(files.status(), ExitOfFiles(files.status()));
  const std::string list = RevocationListOf(arguments.certs_dir);
  return {Json{{"crl", list}, {"certificate", files->certificate}, {"key", files->key}},
          absl::StrCat(arguments.certificate_name, " is in ", list,
                       ": a coordinator with --tls-crl reads that file within 10 seconds; copy it "
                       "to where it reads it. The certificate is now ",
                       files->certificate, "\n")};
}

Outcome MakeKit(const Arguments& arguments) {
  const std::string out = arguments.out.empty()
                              ? absl::StrCat("longhaul-", arguments.certificate_name, ".tar.gz")
                              : arguments.out;
  const absl::StatusOr<CertificateFiles> files =
      MakeSiteKit({.folder = arguments.certs_dir,
                   .pool = arguments.certificate_name,
                   .coordinator = arguments.kit_coordinator,
                   .days = arguments.days.value_or(kCertificateDays),
                   .out = out});
  if (!files.ok()) return ErrorOf(files.status(), ExitOfFiles(files.status()));
  return {Json{{"kit", out},
               {"certificate", files->certificate},
               {"key", files->key},
               {"valid_until", TimeOf(files->end)}},
          absl::StrCat(out, " has what the site needs, and the pool's secret key; valid until ",
                       DateOf(files->end), ". There, with longhaul-worker installed:\n  tar -xzf ",
                       out, " && longhaul-", arguments.certificate_name, "/start.sh\n")};
}

}  // namespace

Outcome Certs(const Arguments& arguments) {
  if (arguments.command == "certs revoke") return Revoke(arguments);
  if (arguments.command == "certs kit") return MakeKit(arguments);
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
               {"valid_until", TimeOf(files->end)}},
          text};
}

}  // namespace longhaul::cli
