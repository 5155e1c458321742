"""`python -m longhaul`: what this package has."""

import longhaul

print(f"""longhaul {longhaul.__version__}
  python -m longhaul.tokenize --help    makes tokens of text
  import longhaul; longhaul.Client()    submits and follows jobs
The program `longhaul` is the command line.""")
