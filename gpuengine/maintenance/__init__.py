"""Maintenance: knowledge bases that outlive the process and change with their facts."""
