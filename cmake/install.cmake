# Binary, scenarios, manifests, plots and the man page where Debian expects them.
install(TARGETS trilemma RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY scenarios/ DESTINATION ${CMAKE_INSTALL_DATADIR}/trilemma/scenarios
        FILES_MATCHING PATTERN "*.yaml")
install(DIRECTORY datasets/ DESTINATION ${CMAKE_INSTALL_DATADIR}/trilemma/datasets
        FILES_MATCHING PATTERN "*.json" PATTERN "*.csv")
install(FILES packaging/trilemma.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES README.md LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
