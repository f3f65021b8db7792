"""The paper's synthetic experiments: points descended on the Radial-VCReg objective (section 3, appendix C)."""
