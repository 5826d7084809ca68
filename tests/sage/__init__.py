"""Tests of the coding agent."""
