// The commands. Each blocks until it is done and leaves an Outcome; what is for people on the way
// goes to environment.err.
#pragma once

#include "coordinator/cli/client.h"
#include "coordinator/cli/outcome.h"

namespace longhaul::cli {

// The command that needs a server which `arguments` names.
Outcome RunCommand(const Arguments& arguments, Client& client, const Environment& environment);

// Without a server.
Outcome Certs(const Arguments& arguments);

Outcome Submit(const Arguments& arguments, Client& client, const Environment& environment);
Outcome Watch(const Arguments& arguments, Client& client, const Environment& environment);

}  // namespace longhaul::cli
