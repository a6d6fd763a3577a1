# Round trips of the direct transport beside a bare SEQPACKET echo.
add_executable(direct_latency ${CMAKE_CURRENT_LIST_DIR}/direct_latency.cc)
target_include_directories(direct_latency PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(direct_latency PRIVATE preprocd::client_cli preprocd::proto_packet
  CLI11::CLI11 preprocd_warnings)
