"""Updates measured: facts and rules that come and go, against computing everything anew."""
