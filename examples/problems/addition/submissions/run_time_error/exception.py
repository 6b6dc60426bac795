# @EXPECTED_RESULTS@: RE
raise ValueError("nobody catches this")
