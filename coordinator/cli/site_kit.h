// What a site needs to run a pool, as one archive: certificate, key, settings, and what starts the
// worker in a terminal, by systemd, as a container, in Kubernetes or by Slurm (deploy/kit).
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "coordinator/cli/certificate_authority.h"

namespace longhaul::cli {

struct SiteKitRequest {
  // Of the authority.
  std::string folder;
  std::string pool;
  // HOST:PORT that the site's workers connect to.
  std::string coordinator;
  int days = kCertificateDays;
  // A .tar.gz, which only its owner can read. It is not overwritten.
  std::string out;
};

// Issues the pool's certificate, unless the authority's folder has one, and writes the archive: a
// folder longhaul-POOL. Returns the pool's files. Blocks on the disk and on tar. Errors: those of
// IssueCertificate, ALREADY_EXISTS of `out`, and
//   INVALID_ARGUMENT  the coordinator is not HOST:PORT
//   NOT_FOUND         tar is not installed
absl::StatusOr<CertificateFiles> MakeSiteKit(const SiteKitRequest& request);

}  // namespace longhaul::cli
