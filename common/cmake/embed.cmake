# Writes a source OUTPUT with the bytes of the file INPUT (see longhaul_embed).
get_filename_component(name ${INPUT} NAME)
string(MAKE_C_IDENTIFIER ${name} identifier)
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "namespace longhaul {\nextern const unsigned char kFile_${identifier}[];\nconst unsigned char kFile_${identifier}[] = {${bytes}0};\nextern const unsigned long kFileSize_${identifier};\nconst unsigned long kFileSize_${identifier} = sizeof(kFile_${identifier}) - 1;\n}\n")
