# What `cmake --install` puts below a prefix, and `cpack -G DEB` and `cpack -G TGZ` into packages; deploy/release.sh makes
# all artefacts of a release.
#   longhaul          coordinator and CLI                       a Debian package
#   longhaul-worker   agent, rank, longhaul-lm, and libtorch    a Debian package; where the worker is built
#   bundled           Debian's libraries that the programs load, and their licences; for other distributions
#   debian            what is Debian's alone of the first: units, settings; debian-worker of the second
#   cuda              the CUDA modules; they need the other libraries of the torch wheel
# Only the first two are installed by default. Programs look for libraries in ../lib/longhaul first: Debian has only
# libtorch there.

# longhaul_install(COMPONENT FOLDER RPATH BUILD_PATHS TARGETS...): targets, with the paths of their libraries: RPATH, and in the build
# also BUILD_PATHS. CMake's own way leaves an empty path in the build, which is the current folder.
function(longhaul_install component folder rpath build_paths)
  set(build_rpath ${rpath} ${build_paths})
  list(JOIN build_rpath ":" build_rpath)
  set_target_properties(${ARGN} PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${build_rpath}")
  set(excluded)
  if(component STREQUAL cuda)
    set(excluded EXCLUDE_FROM_ALL)
  endif()
  install(TARGETS ${ARGN} RUNTIME DESTINATION ${folder} COMPONENT ${component} ${excluded}
          LIBRARY DESTINATION ${folder} COMPONENT ${component} ${excluded})
  if(build_paths)
    string(REPLACE "$" "\\$" old "${build_rpath}")
    string(REPLACE "$" "\\$" new "${rpath}")
    foreach(target ${ARGN})
      install(CODE "file(RPATH_CHANGE FILE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}/$<TARGET_FILE_NAME:${target}>\" OLD_RPATH \"${old}\" NEW_RPATH \"${new}\")"
              COMPONENT ${component} ${excluded})
    endforeach()
  endif()
endfunction()

# Programs have DT_RPATH, not DT_RUNPATH: it counts for libraries that libraries load, so these stay as Debian made them.
function(longhaul_install_programs component build_paths)
  foreach(program ${ARGN})
    target_link_options(${program} PRIVATE -Wl,--disable-new-dtags)
  endforeach()
  longhaul_install(${component} bin "$ORIGIN/../lib/longhaul" "${build_paths}" ${ARGN})
endfunction()

longhaul_install_programs(longhaul "" longhaul-coordinator longhaul longhaul-sentencepiece)
install(FILES ${CMAKE_SOURCE_DIR}/deploy/examples/quickstart.yaml DESTINATION share/longhaul/examples COMPONENT longhaul)

# The units of deploy/systemd, for programs in ${bin}.
function(longhaul_install_unit program bin destination component)
  file(READ ${CMAKE_SOURCE_DIR}/deploy/systemd/${program}.service unit)
  string(REPLACE /usr/local/bin/ ${bin}/ unit "${unit}")
  set(path ${CMAKE_BINARY_DIR}/install/${component}/${program}.service)
  file(CONFIGURE OUTPUT ${path} CONTENT "${unit}" @ONLY)
  install(FILES ${path} DESTINATION ${destination} COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()

# longhaul_debian(PACKAGE COMPONENT SERVICE PROGRAMS...): settings, unit, documents and scripts of a Debian package.
function(longhaul_debian package component service)
  set(debian ${CMAKE_SOURCE_DIR}/deploy/debian)
  set(work ${CMAKE_BINARY_DIR}/install/${component})
  longhaul_install_unit(longhaul-${service} /usr/bin lib/systemd/system ${component})
  install(FILES ${debian}/${service}.env DESTINATION /etc/longhaul COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(FILES ${debian}/${package}.copyright DESTINATION share/doc/${package} RENAME copyright COMPONENT ${component}
          EXCLUDE_FROM_ALL)
  install(FILES ${debian}/${package}.lintian-overrides DESTINATION share/lintian/overrides RENAME ${package}
          COMPONENT ${component} EXCLUDE_FROM_ALL)
  list(TRANSFORM ARGN PREPEND " ${CMAKE_BINARY_DIR}/bin/" OUTPUT_VARIABLE programs)
  list(JOIN programs "" programs)
  install(CODE "execute_process(COMMAND ${debian}/documents.sh ${package} ${PROJECT_VERSION} \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\"${programs} COMMAND_ERROR_IS_FATAL ANY)"
          COMPONENT ${component} EXCLUDE_FROM_ALL)
  set(SERVICE ${service})
  file(CONFIGURE OUTPUT ${work}/control/conffiles CONTENT "/etc/longhaul/${service}.env\n")
  foreach(script postinst prerm postrm)
    configure_file(${debian}/${script} ${work}/control/${script} @ONLY)
  endforeach()
endfunction()
longhaul_debian(longhaul debian coordinator longhaul-coordinator longhaul longhaul-sentencepiece)

if(LONGHAUL_WORKER)
  longhaul_install_programs(longhaul-worker "" longhaul-worker)
  longhaul_install_programs(longhaul-worker ${LONGHAUL_TORCH}/lib longhaul-rank longhaul-lm)
  install(FILES ${LONGHAUL_TORCH}/lib/libtorch_cpu.so ${LONGHAUL_TORCH}/lib/libc10.so ${LONGHAUL_TORCH}/lib/libgomp.so.1
          ${LONGHAUL_CUDA_ROOT}/lib/libcudart.so.13 ${LONGHAUL_CUDA_ROOT}/lib/libcupti.so.13
          DESTINATION lib/longhaul COMPONENT longhaul-worker)
  # A quarter of libtorch is names that no program reads.
  foreach(library libtorch_cpu.so libc10.so)
    install(CODE "execute_process(COMMAND ${CMAKE_STRIP} --strip-unneeded \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/lib/longhaul/${library}\" COMMAND_ERROR_IS_FATAL ANY)"
            COMPONENT longhaul-worker)
  endforeach()
  file(GLOB licenses ${LONGHAUL_SITE}/torch-*.dist-info/licenses/LICENSE)
  install(FILES ${licenses} DESTINATION share/doc/longhaul-worker RENAME torch.LICENSE COMPONENT longhaul-worker)
  file(GLOB licenses ${LONGHAUL_SITE}/torch-*.dist-info/licenses/NOTICE)
  install(FILES ${licenses} DESTINATION share/doc/longhaul-worker RENAME torch.NOTICE COMPONENT longhaul-worker)
  foreach(library cupti runtime)
    file(GLOB licenses ${LONGHAUL_SITE}/nvidia_cuda_${library}-*.dist-info/licenses/License.txt)
    install(FILES ${licenses} DESTINATION share/doc/longhaul-worker RENAME nvidia-cuda-${library}.LICENSE
            COMPONENT longhaul-worker)
  endforeach()
  longhaul_debian(longhaul-worker debian-worker worker longhaul-worker longhaul-rank longhaul-lm)
endif()

if(LONGHAUL_CUDA)
  get_property(modules GLOBAL PROPERTY LONGHAUL_CUDA_MODULES)
  add_custom_target(longhaul_cuda_modules DEPENDS ${modules})
  # Installed as in a Python environment, where the prefix is a package.
  longhaul_install(cuda lib "$ORIGIN/../../torch/lib:$ORIGIN/../../nvidia/cu13/lib:$ORIGIN/../../nvidia/nccl/lib"
                   "${LONGHAUL_TORCH}/lib;${LONGHAUL_CUDA_ROOT}/lib;${LONGHAUL_NCCL_ROOT}/lib" ${modules})
endif()

# Other distributions: what the programs load of Debian, but for the libraries of the C and C++ compilers.
install(CODE "execute_process(COMMAND ${CMAKE_SOURCE_DIR}/deploy/release/bundle.sh ${CMAKE_BINARY_DIR}/bin \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\" COMMAND_ERROR_IS_FATAL ANY)"
        COMPONENT bundled EXCLUDE_FROM_ALL)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION share/doc/longhaul COMPONENT bundled EXCLUDE_FROM_ALL)
longhaul_install_unit(longhaul-coordinator /usr/local/bin share/longhaul/systemd bundled)
longhaul_install_unit(longhaul-worker /usr/local/bin share/longhaul/systemd bundled)

# --- packages --------------------------------------------------------------------------------------------------------
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_COMPONENTS_OF_DEBIAN longhaul debian)
set(CPACK_COMPONENTS_OF_ARCHIVE longhaul bundled)
if(LONGHAUL_WORKER)
  list(APPEND CPACK_COMPONENTS_OF_DEBIAN longhaul-worker debian-worker)
  list(APPEND CPACK_COMPONENTS_OF_ARCHIVE longhaul-worker)
endif()
set(CPACK_PACKAGE_VENDOR "The Longhaul authors")
set(CPACK_PACKAGE_CONTACT "The Longhaul authors <longhaul@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "train one language model on several sites")
set(CPACK_PACKAGE_DESCRIPTION "Longhaul trains one language model on several sites joined by ordinary internet links.")
set(CPACK_PACKAGE_FILE_NAME longhaul-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_SOURCE_DIR}/common/cmake/cpack_options.cmake)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
foreach(package longhaul longhaul-worker)
  string(TOUPPER ${package} P)
  string(REPLACE longhaul debian component ${package})
  string(TOUPPER ${component} C)
  set(CPACK_COMPONENT_${P}_GROUP ${package})
  set(CPACK_COMPONENT_${C}_GROUP ${package})
  set(CPACK_DEBIAN_${P}_PACKAGE_NAME ${package})
  foreach(file conffiles postinst prerm postrm)
    list(APPEND CPACK_DEBIAN_${P}_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/install/${component}/control/${file})
  endforeach()
endforeach()
set(CPACK_DEBIAN_LONGHAUL_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_LONGHAUL_DESCRIPTION
"Longhaul trains one language model on several sites joined by ordinary
internet links. Each site trains as a pool on its own data. Every few dozen
steps the pools exchange quantized parameters through a coordinator.
.
This package has the coordinator and the command line.")
set(CPACK_DEBIAN_LONGHAUL-WORKER_PACKAGE_DEPENDS "adduser, longhaul (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_LONGHAUL-WORKER_DESCRIPTION
"Longhaul trains one language model on several sites joined by ordinary
internet links. Each site trains as a pool on its own data.
.
This package has the agent of a pool's node, its training process, and
libtorch for CPUs, of which Debian has no package.")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${LONGHAUL_TORCH}/lib ${LONGHAUL_CUDA_ROOT}/lib)
include(CPack)
