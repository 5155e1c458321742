// Standard input, output and error of a program that was started without them.
#pragma once

namespace longhaul {

// Opens those that are closed, so that no socket or file of the program gets their numbers: what is
// meant for people would be written into it. Reading and writing fail as before. Call it first in
// main.
void KeepStandardFiles();

}  // namespace longhaul
